"""Pods as the cluster reports them, and what they mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from pliant.controllers.observe import CachedJobObjects, observe
from pliant.kube.objects import Pod, Service
from pliant.model.observed import ObservedPod, PodExit, PodPhase, StuckContainer
from tests.builders import make_group, make_job


def seen(
    status: dict[str, Any] | None = None, *, counted: set[str] | None = None, restarts: str = "Never", **meta: Any
) -> ObservedPod:
    raw = {
        "metadata": {
            "name": "demo-worker-1",
            "uid": "u",
            "labels": {"TrainingJobReplicaName": "worker", "TrainingJobReplicaIndex": "1", "RestartCount": "2"},
            **meta,
        },
        "spec": {"nodeName": "n", "restartPolicy": restarts, "containers": [{"name": "main"}, {"name": "side"}]},
        "status": status or {},
    }
    job = make_job(replace(make_group(), main_containers=frozenset(counted or ())))
    [pod] = observe(job, CachedJobObjects(pods=[msgspec.convert(raw, Pod)])).pods
    return pod


def ended(name: str, code: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "state": {"terminated": {"exitCode": code, **more}}}


def running(name: str) -> dict[str, Any]:
    return {"name": name, "state": {"running": {}}}


def containers(phase: str, *statuses: dict[str, Any]) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": list(statuses)}


def test_labels_tell_the_place_and_the_attempt() -> None:
    pod = seen()
    assert (pod.group, pod.index, pod.attempt, pod.phase) == ("worker", 1, 2, PodPhase.SCHEDULED)


def test_mangled_labels_make_no_trouble() -> None:
    pod = seen(labels={"TrainingJobReplicaIndex": "x", "RestartCount": "y"})
    assert (pod.index, pod.attempt) == (-1, 0)


@pytest.mark.parametrize("number", ["9" * 63, "-5", "1_0", "٣"])
def test_numbers_that_nobody_counts_up_to_are_none(number: str) -> None:
    pod = seen(labels={"TrainingJobReplicaIndex": number, "RestartCount": number})
    assert (pod.index, pod.attempt) == (-1, 0)


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        (containers("Running", running("main"), running("side")), PodPhase.RUNNING),
        (containers("Running", ended("main", 0), running("side")), PodPhase.RUNNING),
        (containers("Running", ended("main", 3), running("side")), PodPhase.FAILED),
        (containers("Succeeded", ended("main", 0), ended("side", 0)), PodPhase.SUCCEEDED),
        (containers("Failed"), PodPhase.FAILED),
        (containers("Pending"), PodPhase.SCHEDULED),
    ],
)
def test_a_pod_is_as_far_as_its_containers(status: dict[str, Any], phase: PodPhase) -> None:
    assert seen(status).phase is phase


def test_side_cars_neither_hold_up_success_nor_cause_failure() -> None:
    assert seen(containers("Running", ended("main", 0), running("side")), counted={"main"}).phase is PodPhase.SUCCEEDED
    assert seen(containers("Failed", ended("main", 0), ended("side", 1)), counted={"main"}).phase is PodPhase.SUCCEEDED
    assert seen(containers("Running", running("main"), ended("side", 1)), counted={"main"}).phase is PodPhase.RUNNING


def test_a_container_that_the_node_will_restart_has_not_failed() -> None:
    assert (
        seen(containers("Running", ended("main", 1), running("side")), restarts="OnFailure").phase is PodPhase.RUNNING
    )


def test_the_earliest_bad_end_is_the_exit() -> None:
    pod = seen(
        containers(
            "Failed",
            ended("main", 1, finishedAt="2026-01-01T00:00:09Z"),
            ended("side", 137, reason="OOMKilled", message="too\n much", finishedAt="2026-01-01T00:00:05Z"),
        )
    )
    assert pod.exit == PodExit(
        code=137, container="side", reason="OOMKilled", message="much", last_log_lines="too\n much"
    )
    assert pod.finished_at is not None
    assert pod.finished_at.second == 5


def test_the_last_line_that_says_something_is_the_message() -> None:
    trace = "Traceback (most recent call last):\n  File train.py\nValueError: loss is nan\n\n---\n"
    pod = seen(containers("Failed", ended("main", 1, message=trace)))
    assert pod.exit is not None
    assert pod.exit.message == "ValueError: loss is nan"
    assert pod.exit.last_log_lines == trace.strip()


def test_of_a_long_speech_the_end_is_kept_in_whole_lines() -> None:
    speech = "".join(f"line {number} \x1b[0m\n" for number in range(400))
    pod = seen(containers("Failed", ended("main", 1, message=speech)))
    assert pod.exit is not None
    assert len(pod.exit.last_log_lines) <= 1024
    assert pod.exit.last_log_lines.startswith("line ")
    assert pod.exit.last_log_lines.endswith("line 399 [0m")


def test_a_pod_has_run_from_its_first_start_to_its_last_end() -> None:
    first = ended("main", 0, startedAt="2026-01-01T00:00:02Z", finishedAt="2026-01-01T00:00:09Z")
    second = ended("side", 0, startedAt="2026-01-01T00:00:01Z", finishedAt="2026-01-01T00:00:05Z")
    pod = seen(containers("Succeeded", first, second))
    assert (pod.started_at and pod.started_at.second, pod.finished_at and pod.finished_at.second) == (1, 9)
    assert seen(containers("Running", first, running("side"))).finished_at is None


def test_a_failing_init_container_fails_the_pod() -> None:
    pod = seen({"phase": "Failed", "initContainerStatuses": [ended("fetch", 2)]})
    assert pod.exit == PodExit(code=2, container="fetch")


def test_a_pod_that_failed_as_a_whole_says_why() -> None:
    pod = seen({"phase": "Failed", "reason": "Evicted", "message": "disk"})
    assert pod.exit == PodExit(reason="Evicted", message="disk")


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (containers("Pending", {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}), ""),
        (
            containers("Pending", {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}),
            "ErrImagePull: no",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"}]},
            "Unschedulable: 0/1",
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ""),
    ],
)
def test_what_keeps_a_pod_from_starting_is_told(status: dict[str, Any], trouble: str) -> None:
    assert seen(status).start_problem == trouble


def test_long_messages_are_cut() -> None:
    pod = seen({"phase": "Failed", "message": "x" * 1000})
    assert pod.exit is not None
    assert len(pod.exit.message) == 300


def test_services_are_known_by_name() -> None:
    raw = {"metadata": {"name": "s", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    found = observe(make_job(), CachedJobObjects(services=[msgspec.convert(raw, Service)])).services["s"]
    assert found.is_terminating


TOOK_IT = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "reason",
    [
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    ],
)
def test_a_container_that_cannot_be_created_is_stuck_since_the_node_took_the_pod(reason: str) -> None:
    waiting = {"name": "side", "state": {"waiting": {"reason": reason, "message": "no"}}}
    pod = seen({**containers("Pending", running("main"), waiting), "startTime": TOOK_IT})
    assert pod.stuck_container == StuckContainer(
        container="side", reason=reason, since=datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing", "CrashLoopBackOff"])
def test_a_container_that_waits_for_another_reason_is_not_stuck(reason: str) -> None:
    waiting = {"name": "main", "state": {"waiting": {"reason": reason}}}
    assert seen({**containers("Pending", waiting), "startTime": TOOK_IT}).stuck_container is None


def test_a_pod_that_runs_is_not_stuck() -> None:
    waiting = {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    assert seen({**containers("Running", running("main"), waiting), "startTime": TOOK_IT}).stuck_container is None


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "was evicted: low on memory"),
        ({"phase": "Failed", "reason": "Preempting"}, "was preempted"),
        ({"phase": "Failed", "reason": "Terminated"}, "was terminated by the shutdown of its node"),
        ({"phase": "Failed", "reason": "NodeRestarted"}, "ended with its node, which restarted"),
        (containers("Failed", ended("main", 255, reason="Unknown")), "ended with its node, which restarted"),
        (
            containers("Failed", ended("main", 137, reason="ContainerStatusUnknown")),
            "ended with its node, which restarted",
        ),
        (
            {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
            "was disrupted by the cluster",
        ),
    ],
)
def test_a_pod_that_the_cluster_ended_did_not_fail_by_itself(status: dict[str, Any], told: str) -> None:
    assert seen(status).disruption == told


@pytest.mark.parametrize(
    "status",
    [
        containers("Failed", ended("main", 1)),
        containers("Running", running("main")),
        containers("Failed", ended("main", 255, reason="Error")),
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        {**containers("Failed", ended("main", 137, reason="ContainerStatusUnknown")), "reason": "DeadlineExceeded"},
        {"phase": "Succeeded", "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ],
)
def test_other_ends_are_no_disruption(status: dict[str, Any]) -> None:
    assert seen(status).disruption == ""


def test_a_program_that_ends_well_because_its_node_shuts_down_has_not_succeeded() -> None:
    pod = seen({**containers("Failed", ended("main", 0)), "reason": "Terminated"})
    assert (pod.phase, pod.is_disrupted_by_node) == (PodPhase.FAILED, True)
    evicted = seen({**containers("Failed", ended("main", 0)), "reason": "Evicted"})
    assert (evicted.phase, evicted.is_disrupted_by_node) == (PodPhase.FAILED, False)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("3", 3), ("", None), ("-1", None), ("x", None), ("٣", None), ("9" * 17, None)]
)
def test_an_acknowledged_request_is_read_from_the_pod(text: str, number: int | None) -> None:
    assert seen(annotations={"pliant/acknowledged-checkpoint": text}).acknowledged_checkpoint == number
    assert seen().acknowledged_checkpoint is None


@pytest.mark.parametrize(("text", "cost"), [("-5", -5), ("7", 7), ("07", 0), ("+7", 0), ("x", 0), ("9" * 10, 0)])
def test_a_deletion_cost_is_a_number_as_on_kubernetes(text: str, cost: int) -> None:
    assert seen(annotations={"controller.kubernetes.io/pod-deletion-cost": text}).deletion_cost == cost
