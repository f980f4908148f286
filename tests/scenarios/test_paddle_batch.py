"""PaddleJobs of batch.paddlepaddle.org, in real processes: modes, ends, cleaning, and sizes that change."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.messages import MessageReason, message
from tests.scenarios.jobs import FOREVER, IMAGE, Manifest
from tests.scenarios.laws import Object
from tests.scenarios.messages import COMPLETED, exited, failed
from tests.scenarios.scene import MARK, Scene, fresh_name, played

_FRONTEND = FRONTENDS["batch.paddlepaddle.org", "PaddleJob"]
PADDLEJOBS = Resource(_FRONTEND.group, _FRONTEND.version, _FRONTEND.plural, _FRONTEND.kind)
SEES_ALL = (
    'for each in $(echo "$PADDLE_TRAINER_ENDPOINTS" | tr , " "); do'
    ' until getent hosts "${each%:*}" >/dev/null; do sleep 0.1; done; echo "$each"; done;'
    ' echo "$PADDLE_TRAINER_ID of $PADDLE_TRAINERS_NUM $TRAINING_ROLE $POD_IP:$PADDLE_PORT"; sleep 1.2'
)
"""Waits for everybody on the list, as Paddle does, says who is there, and who oneself is."""


class PaddleScene(Scene):
    """A namespace with PaddleJobs."""

    jobs = PADDLEJOBS

    async def begin(self, name: str, **fields: Any) -> None:
        """Create a job with these fields in its spec, its processes marked as this scene's."""
        spec = copy.deepcopy(fields)
        for role in (spec[each] for each in ("ps", "worker", "heter") if each in spec):
            for container in role["template"]["spec"]["containers"]:
                container["env"] = [{"name": MARK, "value": self.namespace}]
        body = {"apiVersion": self.jobs.api_version, "kind": self.jobs.kind, "metadata": {"name": name}}
        await self.client.create(self.jobs, self.namespace, {**body, "spec": spec})

    async def until_over(self, name: str, phase: str) -> Object:
        """The status of a job at this end, once nothing of it is on its way out."""

        def is_over() -> bool:
            memory = self.status(name).get("pliant") or {}
            return self.phase(name) == phase and memory.get("phase") in ("Succeed", "Failed")

        await self.until(is_over, f"{name} over as {phase}")
        return await self.until_phase(name, phase)

    async def until_told(self, name: str, number: int, attempt: int) -> None:
        """Wait until so many workers run, all of this attempt, and each is told of so many."""
        wanted = {(f"{name}-worker-{index}", "Running", str(attempt), str(number)) for index in range(number)}

        def members() -> set[tuple[str, ...]]:
            mine = {each: pod for each, pod in self.pods.items() if each.startswith(f"{name}-")}
            return {
                (each, pod["status"].get("phase", ""), pod["metadata"]["labels"]["RestartCount"], told_number(pod))
                for each, pod in mine.items()
            }

        await self.until(lambda: members() == wanted, f"{number} workers of {name} at attempt {attempt}")
        await self.until_phase(name, "Running")


def told_number(pod: Object) -> str:
    """How many trainers there are, as a pod is told."""
    variables = pod["spec"]["containers"][0]["env"]
    return next((each["value"] for each in variables if each["name"] == "PADDLE_TRAINERS_NUM"), "")


def role(script: str, replicas: int = 1, **fields: Any) -> Manifest:
    """Members that run a script."""
    container = {"name": "paddle", "image": IMAGE, "command": ["sh", "-c", script]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {"replicas": replicas, **fields, "template": template}


@pytest.fixture
async def paddle(client: KubeClient) -> AsyncIterator[PaddleScene]:
    """A fresh namespace for PaddleJobs."""
    async with played(PaddleScene(client, fresh_name())) as scene:
        yield scene


async def test_jobs_of_every_mode_find_their_members_and_release_their_servers(paddle: PaddleScene) -> None:
    await paddle.begin("one", worker=role(SEES_ALL), cleanPodPolicy="Never")
    await paddle.begin("two", worker=role(SEES_ALL, 2), cleanPodPolicy="Never", intranet="Service")
    served = {"ps": role(FOREVER, 2), "worker": role(SEES_ALL, 2), "heter": role(FOREVER)}
    await paddle.begin("served", **served, cleanPodPolicy="Never", withGloo=1)
    for name, mode in {"one": "Single", "two": "Collective", "served": "PS"}.items():
        status = await paddle.until_over(name, "Completed")
        assert (status["mode"], paddle.message(name)) == (mode, COMPLETED)
        assert status["startTime"] <= status["completionTime"]
    # Servers would have gone on for ever; those that have ended stay, as nothing is to be cleaned.
    left = {"one-worker-0", "two-worker-0", "two-worker-1", "served-worker-0", "served-worker-1"}
    assert set(paddle.pods) == left
    space = paddle.namespace
    both = [f"two-worker-{index}.{space}:36000" for index in range(2)]
    assert (await paddle.log("two-worker-1")).split("\n") == [*both, f"1 of 2 TRAINER {both[1]}", ""]
    told = paddle.status("two")["worker"]
    assert (told["succeeded"], [each["name"] for each in told["refs"]]) == (2, ["two-worker-0", "two-worker-1"])
    pod = paddle.pods["two-worker-1"]
    assert pod["metadata"]["labels"].items() >= {("paddle-res-name", "two-worker-1"), ("paddle-res-type", "worker")}
    assert pod["metadata"]["annotations"]["paddle-resource"] == "worker"
    assert pod["spec"]["hostname"] == pod["spec"]["subdomain"] == "two-worker-1"


CLEANING = {"": "c", "Always": "cf", "Never": "", "OnFailure": "f", "OnCompletion": "c"}
"""After which ends nothing is left: of complete jobs, of failed ones."""


async def test_what_is_left_depends_on_the_end(paddle: PaddleScene) -> None:
    names = {policy: (policy or "Default").lower() for policy in CLEANING}
    for policy, name in names.items():
        await paddle.begin(f"c-{name}", worker=role("exit 0"), cleanPodPolicy=policy)
        await paddle.begin(f"f-{name}", ps=role(FOREVER), worker=role("exit 3"), cleanPodPolicy=policy)
    for name in names.values():
        await paddle.until_over(f"c-{name}", "Completed")
        status = await paddle.until_over(f"f-{name}", "Failed")
        assert (paddle.message(f"f-{name}"), status["rootCause"]["exitCode"]) == (failed(exited("worker-0", 3)), 3)
    left = {
        f"{end}-{names[policy]}-worker-0" for policy, cleared in CLEANING.items() for end in "cf" if end not in cleared
    }
    await paddle.until(lambda: set(paddle.pods) == left, f"exactly {sorted(left)}")
    await paddle.until(lambda: set(paddle.services) == left, "their services alone")


async def test_elastic_workers_start_again_at_another_size_and_others_keep_theirs(paddle: PaddleScene) -> None:
    await paddle.begin("elastic", elastic=1, worker=role(FOREVER, 2))
    await paddle.begin("fixed", worker=role(FOREVER, 2))
    await paddle.until_told("elastic", 2, 0)
    await paddle.edit("elastic", {"spec": {"worker": {"replicas": 3}}})
    await paddle.until_told("elastic", 3, 1)
    await paddle.edit("elastic", {"spec": {"replicas": 2}}, subresource="scale")
    await paddle.until_told("elastic", 2, 2)
    assert paddle.status("elastic")["restarts"] == 0
    assert paddle.status("elastic")["scaling"][0]["size"] == 2
    told = await paddle.client.get(paddle.jobs, paddle.namespace, "elastic", subresource="scale")
    assert told["spec"]["replicas"] == told["status"]["replicas"] == 2

    await paddle.until_told("fixed", 2, 0)
    await paddle.edit("fixed", {"spec": {"worker": {"replicas": 3}}})
    refusal = await paddle.until(lambda: paddle.events("fixed").get("ResizeRejected"), "a word about the size")
    why = (
        "the number of trainers is set at the start (PADDLE_TRAINERS_NUM);"
        " set spec.elastic: 1 to restart them with another size"
    )
    rejected = message(MessageReason.GROUP_SIZE_FIXED, group="worker", size=2, rejected=3, cause=why)
    assert refusal == message(MessageReason.RESIZE_REJECTED, [rejected])
    await paddle.until_told("fixed", 2, 0)
    await paddle.edit("fixed", {"spec": {"elastic": 1}})
    await paddle.until_told("fixed", 3, 1)


async def test_a_worker_that_fails_takes_the_others_along_where_they_wait_for_it(paddle: PaddleScene) -> None:
    falls = 'if [ "$PADDLE_TRAINER_ID" = 1 ]; then exit 9; fi; exec sleep 600'
    await paddle.begin("falls", elastic=1, worker=role(falls, 2))
    await paddle.until(lambda: paddle.attempts("falls-worker-0")[-1:] == ["1"], "worker 0 again")
    told = paddle.events("falls")["Restarting"]
    assert (told.reason, told.parameters) == ("Restarting", {"group": "worker", "used": 1, "scope": "All"})


async def test_members_that_would_listen_on_the_same_port_of_a_node_are_kept_apart(
    paddle: PaddleScene, ground: str
) -> None:
    if ground != "real":
        pytest.skip("the embedded scheduler does not look at ports")
    await paddle.begin("host", intranet="Host", ps=role(FOREVER), worker=role(FOREVER, 2))

    def verdicts() -> list[str]:
        """The node of each worker, or why it has none."""
        workers = [pod for name, pod in paddle.pods.items() if name.startswith("host-worker-")]
        reasons = [each for pod in workers for each in pod["status"].get("conditions") or ()]
        told = [each["message"] for each in reasons if each.get("reason") == "Unschedulable"]
        return [*(pod["spec"]["nodeName"] for pod in workers if pod["spec"].get("nodeName")), *told]

    await paddle.until(lambda: len(verdicts()) == 2, "a verdict on both")
    one, other = verdicts()
    assert one != other
    assert "free ports" in other or " " not in other
