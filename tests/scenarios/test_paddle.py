"""PaddleJobs of paddlepaddle.org in real processes: who ends them, who comes back, what is left."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.messages import MessageReason
from tests.scenarios.cluster import Site
from tests.scenarios.conftest import ELSEWHERE
from tests.scenarios.jobs import FOREVER, IMAGE, Manifest
from tests.scenarios.laws import Object
from tests.scenarios.messages import COMPLETED, exited, failed, limit_reached, resized, text_of
from tests.scenarios.scene import MARK, Scene, fresh_name, played

KIND = FRONTENDS["paddlepaddle.org", "PaddleJob"]
ROLE = 'case "$PADDLE_TRAINING_ROLE" in PSERVER) {};; *) {};; esac'


class PaddleScene(Scene):
    """A namespace with PaddleJobs of paddlepaddle.org."""

    jobs = Resource(KIND.group, KIND.version, KIND.plural, KIND.kind)

    async def submit(self, manifest: Manifest, **envs: str) -> Object:
        """Create a job, its processes marked as this scene's."""
        body = copy.deepcopy(manifest)
        for role in ("master", "pserver", "trainer"):
            if role in body["spec"]:
                body["spec"][role] |= {"envs": {MARK: self.namespace, **envs}, "grace_period_seconds": 1}
        return await self.client.create(self.jobs, self.namespace, body)

    async def until_status(self, name: str, *wanted: str) -> Object:
        """Wait for a phase, and until nothing is on its way out."""

        def is_there() -> bool:
            status = self.status(name)
            return status.get("phase") in wanted and status["pliant"]["phase"] != "Terminating"

        await self.until(is_there, f"{name} {wanted}")
        return self.status(name)


@pytest.fixture
async def paddle(client: KubeClient) -> AsyncIterator[PaddleScene]:
    """A fresh namespace for them."""
    async with played(PaddleScene(client, fresh_name())) as scene:
        yield scene


def paddle_job(
    trains: str, *, trainers: tuple[int, int] = (2, 2), serves: str = FOREVER, servers: int = 0, **spec: Any
) -> Manifest:
    """A job whose trainers run one script, and whose servers another."""
    least, most = trainers
    trainer = {"entrypoint": ROLE.format(serves, trains), "min-instance": least, "max-instance": most}
    roles = {"trainer": trainer | spec.pop("trainer", {})} | ({"pserver": {"min-instance": servers}} if servers else {})
    return {
        "apiVersion": PaddleScene.jobs.api_version,
        "kind": "PaddleJob",
        "metadata": {"name": "fit", "annotations": {"pliant/autoscale": "off"}},
        "spec": {"image": IMAGE, **roles, **spec},
    }


def members(scene: Scene, label: str) -> list[str]:
    """The pods that a selector would list."""
    name, _, value = label.partition("=")
    return sorted(pod for pod, each in scene.pods.items() if each["metadata"]["labels"].get(name) == value)


def role(status: Mapping[str, Any], name: str) -> dict[str, Any]:
    """What a status tells of one role."""
    [found] = [each for each in status["replica_statuses"] if each["training_resource_type"] == name]
    return dict(found)


async def test_trainers_end_the_job_servers_are_let_go_and_logs_stay(paddle: PaddleScene) -> None:
    say = 'echo "$PADDLE_TRAINER_ID of $PADDLE_TRAINERS, servers $PADDLE_PSERVERS at port $PADDLE_PSERVER_PORT"'
    found = "until getent hosts ${PADDLE_PSERVER_IPS%%,*} >/dev/null; do sleep 0.1; done; echo found"
    await paddle.submit(paddle_job(f"{say}; {found}; sleep 1", trainers=(2, 6), servers=2))
    await paddle.until(lambda: len(members(paddle, "paddle-job-name=fit")) == 4, "all four")
    assert members(paddle, "paddle-job=fit") == ["fit-trainer-0", "fit-trainer-1"]
    assert members(paddle, "paddle-job-pserver=fit") == ["fit-pserver-0", "fit-pserver-1"]
    status = await paddle.until_status("fit", "succeeded")
    assert paddle.message("fit") == COMPLETED
    assert members(paddle, "paddle-job-name=fit") == ["fit-trainer-0", "fit-trainer-1"]
    assert role(status, "TRAINER") == {
        "training_resource_type": "TRAINER",
        "state": "succeeded",
        "resource_states": {"succeeded": 2},
    }
    assert await paddle.log("fit-trainer-1") == "1 of 2, servers 2 at port 7164\nfound\n"
    assert [phase for phase in paddle.phases("fit") if phase] == ["creating", "running", "succeeded"]
    await paddle.delete("fit")
    await paddle.until_gone()


async def test_a_trainer_of_a_fixed_number_that_fails_fails_the_job(paddle: PaddleScene) -> None:
    await paddle.submit(paddle_job('[ "$PADDLE_TRAINER_ID" = 1 ] && exit 3; exec sleep 600', servers=1))
    status = await paddle.until_status("fit", "failed")
    assert paddle.message("fit") == failed(exited("trainer-1", 3))
    assert (status["restarts"], status["rootCause"]["exitCode"]) == (0, 3)
    assert members(paddle, "paddle-job-name=fit") == ["fit-trainer-1"]


async def test_a_trainer_that_may_come_and_go_comes_back_alone_until_that_is_spent(paddle: PaddleScene) -> None:
    script = '[ "$PADDLE_TRAINER_ID" = 1 ] && exit 3; exec sleep 600'
    manifest = paddle_job(script, trainers=(2, 3), servers=1, trainer={"restart_limit": "50%"})
    await paddle.submit(manifest)
    await paddle.until_status("fit", "failed")
    assert paddle.message("fit") == failed(limit_reached(exited("trainer-1", 3), "trainer", 1))
    assert paddle.attempts("fit-trainer-1") == ["0", "1"]
    assert paddle.attempts("fit-trainer-0") == ["0"]


async def test_a_server_that_fails_comes_back(paddle: PaddleScene) -> None:
    serves = "[ -e /tmp/$NAMESPACE ] || { touch /tmp/$NAMESPACE; exit 1; }; rm /tmp/$NAMESPACE; exec sleep 600"
    await paddle.submit(paddle_job("exec sleep 600", serves=serves, servers=1))
    await paddle.until(lambda: paddle.attempts("fit-pserver-0") == ["0", "1"], "a second server")
    await paddle.until(lambda: paddle.status("fit").get("ready") == "3/3", "all of them running again")
    assert (paddle.phase("fit"), paddle.status("fit")["restarts"]) == ("running", 1)


@pytest.mark.on_real
async def test_a_job_is_scaled_by_one_number_and_says_so(paddle: PaddleScene) -> None:
    await paddle.submit(paddle_job(FOREVER, trainers=(1, 3)))
    await paddle.until_phase("fit", "running")
    await paddle.edit("fit", {"spec": {"replicas": 3}}, "scale")
    await paddle.until(lambda: paddle.status("fit").get("ready") == "3/3", "three trainers")
    await paddle.until_phase("fit", "running")
    assert "scaling" in paddle.phases("fit")
    [scaling] = paddle.status("fit")["scaling"]
    assert (scaling["size"], scaling["requestedBy"]) == (3, "scale")
    assert paddle.events("fit")["Resized"] == resized("trainer", 1, 3, "scale", restarts=True)


async def test_bounds_that_contradict_each_other_are_warned_of_once(paddle: PaddleScene) -> None:
    await paddle.submit(paddle_job("sleep 1", trainers=(2, 1)))
    status = await paddle.until_status("fit", "succeeded")
    said = "spec.trainer.min-instance (2) exceeds max-instance (1): the size is fixed at 2"
    assert text_of(paddle.events("fit")[MessageReason.SPEC_WARNING]) == said
    assert paddle.message("fit") == COMPLETED
    assert status["reason"].endswith(f"; {said}")


async def test_what_cannot_be_used_is_told_in_the_status_and_can_be_mended(paddle: PaddleScene) -> None:
    await paddle.submit(paddle_job("true", port="many"))
    await paddle.until(lambda: paddle.status("fit").get("invalid"), "a complaint")
    assert paddle.status("fit")["reason"] == 'spec.port: must be an integer, got "many"'
    assert paddle.pods == {}
    await paddle.edit("fit", {"spec": {"port": 7164}})
    status = await paddle.until_status("fit", "succeeded")
    assert "invalid" not in status


SCRIPT = """\
#!/bin/sh
echo "$* with $MASTER_IP"
case "$*" in start_new_trainer) sleep 1; sh -c "$ENTRY";; *) exec sleep 600;; esac
"""
"""What an image has under the names paddle_k8s and etcd, for a test."""


@pytest.mark.skipif(bool(ELSEWHERE), reason="its nodes do not see this machine's files")
async def test_a_tolerant_job_runs_what_its_image_has_for_each_role(paddle: PaddleScene, site: Site) -> None:
    folder = site.user.home / "image"
    folder.mkdir(exist_ok=True)
    for name in ("paddle_k8s", "etcd"):
        (folder / name).write_text(SCRIPT)
        (folder / name).chmod(0o755)
    manifest = paddle_job("true", trainers=(2, 4), servers=1, fault_tolerant=True, master={})
    manifest["spec"]["trainer"]["entrypoint"] = "echo trained"
    await paddle.submit(manifest, PATH=f"{folder}:/usr/bin:/bin")
    master = f"fit-master-0.{paddle.namespace}"
    await paddle.until_phase("fit", "running")
    [server] = paddle.pods["fit-pserver-0"]["spec"]["containers"]
    assert server["command"] == ["paddle_k8s", "start_new_pserver"]
    assert members(paddle, "paddle-job-master=fit") == ["fit-master-0"]
    await paddle.until_status("fit", "succeeded")
    assert await paddle.log("fit-trainer-1") == f"start_new_trainer with {master}\ntrained\n"
    assert members(paddle, "paddle-job-name=fit") == ["fit-trainer-0", "fit-trainer-1"]
