"""Jobs whose spec is a list of replicas: MXJob and TFJob of mpba.fbk.eu, in real processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.frontends import FRONTENDS
from pliant.kube.resources import Resource
from pliant.model.messages import MessageReason
from tests.scenarios.jobs import FOREVER, IMAGE, Manifest
from tests.scenarios.messages import COMPLETED, exited, failed, message_in
from tests.scenarios.scene import MARK, PATIENCE, Scene

pytestmark = pytest.mark.on_real

GROUP = "mpba.fbk.eu"
LISTED = {kind: Resource(GROUP, "v1", FRONTENDS[GROUP, kind].plural, kind) for kind in ("MXJob", "TFJob")}


class Stage:
    """A namespace in which jobs of the listed kinds are tried."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    async def submit(self, kind: str, name: str, *replicas: Manifest) -> None:
        body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": list(replicas)}
        for each in replicas:
            container = each["template"]["spec"]["containers"][0]
            container["env"] = [{"name": MARK, "value": self.scene.namespace}]
        await self.scene.client.create(LISTED[kind], self.scene.namespace, body)

    async def until_phase(self, kind: str, name: str, phase: str) -> dict[str, Any]:
        """The status of a job once it is in that phase and nothing of it is on its way out."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.scene.client.get(LISTED[kind], self.scene.namespace, name)
                status: dict[str, Any] = found.get("status") or {}
                ended = status.get("pliant", {}).get("phase") not in (None, "Terminating")
                if status.get("phase") == phase and ended:
                    return status
                await asyncio.sleep(0.05)

    async def clear(self) -> None:
        for resource in LISTED.values():
            for each in (await self.scene.client.list(resource, self.scene.namespace)).items:
                with suppress(NotFound):
                    await self.scene.client.delete(resource, self.scene.namespace, each["metadata"]["name"])
        await self.scene.until_gone()


@pytest.fixture
async def stage(scene: Scene) -> AsyncIterator[Stage]:
    """A stage that is cleared before its scene is judged."""
    opened = Stage(scene)
    yield opened
    await opened.clear()


def replica(kind: str, script: str, replicas: int = 1, **fields: Any) -> Manifest:
    command = ["sh", "-c", script.replace("$$", "$$$$")]
    container = {"name": "main", "image": IMAGE, "command": command}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {"replicaType": kind, "replicas": replicas, **fields, "template": template}


def replicas_of(status: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in status["replicaStatuses"]}


async def test_workers_that_end_well_end_the_job_and_release_the_others(stage: Stage) -> None:
    worker = "echo $DMLC_ROLE $DMLC_PS_ROOT_URI:$DMLC_PS_ROOT_PORT $DMLC_NUM_SERVER $DMLC_NUM_WORKER $PS_VERBOSE"
    found = "until getent hosts $DMLC_PS_ROOT_URI >/dev/null; do sleep 0.1; done; echo found"
    await stage.submit(
        "MXJob",
        "train",
        replica("SCHEDULER", FOREVER),
        replica("SERVER", FOREVER),
        replica("WORKER", f"{worker}; {found}; sleep 1.2", 2),
    )
    status = await stage.until_phase("MXJob", "train", "Succeeded")
    assert message_in(status) == COMPLETED
    assert status["duration"]
    rows = replicas_of(status)
    assert {name: row["phase"] for name, row in rows.items()} == {
        "scheduler-train-0": "Stopped",
        "server-train-0": "Stopped",
        "worker-train-0": "Succeeded",
        "worker-train-1": "Succeeded",
    }
    assert rows["worker-train-1"]["lastExit"]["exitCode"] == 0
    assert "lastExit" not in rows["server-train-0"]
    assert sorted(stage.scene.services) == ["worker-train-0-service", "worker-train-1-service"]
    assert stage.scene.pods["worker-train-1"]["metadata"]["labels"].items() >= {
        ("pod_name", "worker-train-1"),
        ("job_name", "train"),
    }
    log = await stage.scene.log("worker-train-0")
    assert log == "worker scheduler-train-0-service:9000 1 2 2\nfound\n"


async def test_an_exit_code_of_a_program_fails_the_job_and_is_told_in_full(stage: Stage) -> None:
    await stage.submit("TFJob", "train", replica("ps", FOREVER), replica("worker", "echo out of luck; exit 3"))
    status = await stage.until_phase("TFJob", "train", "Failed")
    assert message_in(status) == failed(exited("worker-0", 3, "out of luck"))
    assert status["restarts"] == 0
    end = replicas_of(status)["worker-train-0"]["lastExit"]
    assert (end["exitCode"], end["reason"], end["message"].strip()) == (3, "Error", "out of luck")
    cause = status["rootCause"]
    assert (cause["replica"], cause["exitCode"]) == ("worker-0", 3)
    assert replicas_of(status)["ps-train-0"]["phase"] == "Stopped"


async def test_a_signal_restarts_the_whole_job_until_its_restarts_are_spent(stage: Stage) -> None:
    script = 'case "$TF_CONFIG" in *\'"type":"worker","index":1\'*) kill -9 $$;; *) sleep 5;; esac'
    await stage.submit("TFJob", "train", replica("ps", FOREVER), replica("Worker", script, 2, restartLimit=1))
    status = await stage.until_phase("TFJob", "train", "Failed")
    assert status["restarts"] == 1
    row = replicas_of(status)["worker-train-1"]
    assert (row["restarts"], row["lastExit"]["signal"], row["lastExit"]["exitCode"]) == (1, "SIGKILL", 137)
    assert replicas_of(status)["ps-train-0"]["restarts"] == 1
    [cause] = message_in(status).details
    assert (cause.reason, cause.parameters) == (MessageReason.RESTART_LIMIT_REACHED, {"group": "worker", "limit": 1})


async def test_members_of_a_tensorflow_job_are_told_of_each_other_in_one_variable(stage: Stage) -> None:
    await stage.submit("TFJob", "train", replica("PS", FOREVER), replica("WORKER", 'echo "$TF_CONFIG"; sleep 1.2'))
    await stage.until_phase("TFJob", "train", "Succeeded")
    config = json.loads(await stage.scene.log("worker-train-0"))
    assert config["task"] == {"type": "worker", "index": 0}
    [address] = config["cluster"]["ps"]
    assert address.startswith("ps-train-0-service.")
    assert address.endswith(":2222")


async def test_a_job_rests_and_goes_on_by_what_stands_beside_its_list(stage: Stage) -> None:
    scene, mxjobs = stage.scene, LISTED["MXJob"]
    await stage.submit("MXJob", "train", *(replica(kind, FOREVER) for kind in ("scheduler", "server", "worker")))
    await stage.until_phase("MXJob", "train", "Running")
    await scene.client.patch(mxjobs, scene.namespace, "train", {"runPolicy": {"suspend": True}})
    await stage.until_phase("MXJob", "train", "Suspended")
    await scene.until(lambda: not scene.pods, "no pods")
    await scene.client.patch(mxjobs, scene.namespace, "train", {"runPolicy": {"suspend": False}})
    await stage.until_phase("MXJob", "train", "Running")
    await scene.client.patch(mxjobs, scene.namespace, "train", {"runPolicy": {"activeDeadlineSeconds": 0}})
    status = await stage.until_phase("MXJob", "train", "Timeout")
    assert replicas_of(status)["worker-train-0"]["phase"] == "Stopped"


async def test_what_only_the_operator_can_know_is_told_in_the_status(stage: Stage) -> None:
    await stage.submit("MXJob", "train", replica("server", FOREVER), replica("worker", FOREVER))
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await stage.scene.client.get(LISTED["MXJob"], stage.scene.namespace, "train")
            if found.get("status", {}).get("conditions"):
                break
            await asyncio.sleep(0.05)
    assert found["status"]["message"] == ("spec: needs a replica of type scheduler: other replicas require its address")
    assert stage.scene.pods == {}
