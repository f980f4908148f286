"""Jobs that get past the schema and cannot be understood: said where, and mended without harm."""

from __future__ import annotations

import pytest

from pliant.errors import Invalid
from pliant.kube.resources import PRIORITY_CLASSES
from pliant.model.messages import NO_MESSAGE
from tests.scenarios.jobs import FOREVER, group, job
from tests.scenarios.messages import ALL_RUNNING, text_of
from tests.scenarios.scene import Scene

pytestmark = pytest.mark.on_real

PROBLEM = "spec.restartingExitCode: must list exit codes"


async def test_a_job_that_cannot_be_understood_says_which_field_and_runs_once_mended(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group("exit 0")}, restartingExitCode="one,two"))
    await scene.until(lambda: scene.status("t").get("conditions"), "a condition")
    complaint = scene.status("t")["conditions"][-1]
    assert complaint["type"] == "Invalid"
    assert complaint["message"].startswith(PROBLEM)
    told = await scene.until(lambda: scene.complaint("t"), "an event about the field")
    assert told.startswith(PROBLEM)
    assert scene.pods == {}

    await scene.edit("t", {"spec": {"restartingExitCode": "1,2"}})
    status = await scene.until_phase("t", "Succeed")
    assert "Invalid" not in [entry["type"] for entry in status["conditions"] if entry["status"] == "True"]


async def test_a_running_job_that_is_broken_by_an_edit_trains_on_and_is_mended(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2)}))
    await scene.until_phase("t", "Running")
    await scene.edit("t", {"spec": {"restartingExitCode": "x"}})
    await scene.until(lambda: scene.rejection("t").startswith(PROBLEM), "the complaint")
    assert scene.phase("t") == "Running"
    await scene.edit("t", {"spec": {"restartingExitCode": None}})
    await scene.until(lambda: not scene.rejection("t"), "the complaint gone")
    assert scene.message("t") == ALL_RUNNING
    assert [len(scene.made(f"t-worker-{index}")) for index in (0, 1)] == [1, 1]


async def test_a_job_of_a_priority_that_the_cluster_does_not_know_runs_and_says_so(scene: Scene) -> None:
    name = scene.namespace  # classes belong to no namespace
    await scene.submit(job("t", {"worker": group(FOREVER)}, priority=name))
    await scene.until_phase("t", "Running")
    [pod] = scene.pods.values()
    assert (pod["metadata"]["labels"]["priority"], pod["spec"].get("priorityClassName")) == (name, None)
    told = await scene.until(lambda: text_of(scene.events("t").get("SpecWarning", NO_MESSAGE)), "a warning")
    assert f"PriorityClass {name} not found" in told
    meta = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind, "metadata": {"name": name}}
    await scene.client.create(PRIORITY_CLASSES, None, {**meta, "value": 7})
    try:
        await scene.submit(job("u", {"worker": group(FOREVER)}, priority=name))
        await scene.until_phase("u", "Running")
        assert scene.pods["u-worker-0"]["spec"]["priorityClassName"] == name
        assert "SpecWarning" not in scene.events("u")
    finally:
        await scene.client.delete(PRIORITY_CLASSES, None, name)


async def test_what_the_schema_refuses_never_becomes_a_job(scene: Scene) -> None:
    with pytest.raises(Invalid, match=r"spec\.replicaSpecs\.worker\.restartPolicy"):
        await scene.submit(job("t", {"worker": group("exit 0", restartPolicy="Sometimes")}))
    with pytest.raises(Invalid, match=r"spec\.replicaSpecs\.worker\.replicas"):
        await scene.submit(job("t", {"worker": group("exit 0", -1)}))
    assert scene.job("t") == {}


async def test_a_job_whose_pods_could_have_no_name_says_so(scene: Scene) -> None:
    await scene.submit(job("t" * 60, {"worker": group("exit 0", 12)}))
    told = await scene.until(lambda: str(scene.status("t" * 60).get("message", "")), "a message")
    assert "spec.replicaSpecs.worker" in told or "metadata.name" in told
    assert scene.pods == {}
