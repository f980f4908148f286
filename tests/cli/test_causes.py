"""The first sentence of `pliant why` names what keeps replicas from starting; its causes are those of the status."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pliant.cli.cluster.job_context import JobEvent
from pliant.kube.objects import ContainerWaiting, Pod
from pliant.model.messages import MessageReason, message
from pliant.model.state import EngineState, GroupState, JobPhase, ReplicaFailure, RestartCause
from tests.builders import NOON, make_group, make_job, restarting, saying
from tests.cli.test_board import board_with, in_phase, pod
from tests.cli.test_story import sentences, told_of

NO_CLAIM = 'MountVolume.SetUp failed for volume "d" : persistentvolumeclaim "data" not found'
CREATE_IT = "create the missing object (ConfigMap, Secret, volume), or fix its name in the template of worker"


def starting(**fields: Any) -> EngineState:
    waiting = message(MessageReason.WAITING_FOR_REPLICAS, running=0, total=2)
    return EngineState(phase=JobPhase.CREATING, message=waiting, started_at=NOON, **fields)


def scheduled(index: int, waiting: ContainerWaiting | None = None) -> Pod:
    made = pod(index, phase="Pending", waiting=waiting)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, node_name="node-0"))


def test_a_volume_that_only_an_event_calls_missing_is_in_the_first_sentence() -> None:
    event = JobEvent(
        at=NOON, is_warning=True, reason="FailedMount", involved_object="Pod demo-worker-0", message=NO_CLAIM
    )
    told = told_of(make_job(state=starting()), scheduled(0), pod(1), events=[event])
    assert told.headline == (f"demo is waiting for its replicas to start (for 5m): worker-0: FailedMount: {NO_CLAIM}")
    assert CREATE_IT in told.remedies


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (scheduled(0, ContainerWaiting(reason="ContainerCreating", message=NO_CLAIM)), NO_CLAIM),
        (
            pod(0, phase="Pending", unschedulable='0/1 nodes are available: persistentvolumeclaim "data" not found.'),
            'Unschedulable: 0/1 nodes are available: persistentvolumeclaim "data" not found.',
        ),
    ],
)
def test_a_missing_claim_is_in_the_first_sentence_with_what_to_do(made: Pod, problem: str) -> None:
    told = told_of(make_job(state=starting()), made, pod(1))
    assert told.headline.endswith(f"worker-0: {problem}")
    assert told.remedies == [CREATE_IT]


def test_an_image_that_cannot_be_pulled_is_the_root_cause_though_another_replica_failed() -> None:
    cause = ReplicaFailure(
        replica="worker-0",
        cause=RestartCause.CREATION,
        container="trainer",
        reason="ImagePullBackOff",
        message='ImagePullBackOff: Back-off pulling image "trian:1"',
        at=NOON,
    )
    failed = ReplicaFailure(replica="worker-1", exit_code=1, at=NOON + timedelta(minutes=1))
    ended = EngineState(
        phase=JobPhase.FAILED, message=saying("x"), started_at=NOON, ended_at=NOON, root_cause=cause, failures=(failed,)
    )
    first, second = told_of(make_job(state=ended), pod(1, phase="Failed", code=1)).reasons
    assert first.text.startswith("Root cause: worker-0 could not create container trainer (ImagePullBackOff)")
    assert first.log_lines == [cause.message]
    assert second.text.startswith("worker-1 exited with code 1")


def test_the_root_cause_is_that_of_the_status_though_another_pod_ended_in_the_same_second() -> None:
    causes = [ReplicaFailure(replica=f"worker-{index}", exit_code=1, at=NOON) for index in (1, 0)]
    ended = EngineState(
        phase=JobPhase.FAILED,
        message=saying("x"),
        started_at=NOON,
        ended_at=NOON,
        root_cause=causes[0],
        failures=(*causes,),
    )
    pods = [pod(index, phase="Failed", code=1) for index in (0, 1)]
    first, second = told_of(make_job(state=ended), *pods).reasons
    assert first.text.startswith("Root cause: worker-1 ")
    assert second.text.startswith("worker-0 ")
    job = make_job(state=ended)
    cause = board_with(job, *pods).root_cause(job)
    assert cause is not None
    assert cause.replica_name == "worker-1"


def test_a_failed_pod_is_no_root_cause_of_a_job_that_was_ended_on_request() -> None:
    ended = EngineState(phase=JobPhase.PREEMPTED, message=saying("x"), started_at=NOON, ended_at=NOON)
    assert "Root cause" not in sentences(told_of(make_job(state=ended), pod(0, phase="Failed", code=1)))


def test_one_restart_of_all_groups_is_told_once() -> None:
    groups = [make_group(name, 1, restart=restarting(limit=3)) for name in ("ps", "worker")]
    memory = GroupState(attempt=1, restarts_by_cause={RestartCause.APP: 1})
    state = in_phase(JobPhase.RUNNING, groups={"ps": memory, "worker": memory}, restart_count=1)
    assert told_of(make_job(*groups, state=state)).details == [
        "1 restart of the job; one that restarts several groups counts once.",
        "ps, worker have used 1 of 3 restarts (app 1), 2 left.",
    ]


def test_a_run_shows_the_phase_of_the_job_as_get_does() -> None:
    groups = [make_group("worker", 1), make_group("ps", 1)]
    board = board_with(make_job(*groups, state=in_phase(JobPhase.RUNNING)), pod(0, phase="Succeeded", code=0))
    assert [(line.group, line.phase, line.replica_counts_text) for line in board.group_lines()] == [
        ("worker", "Running", "1/1 done"),
        ("ps", "Running", "0/1"),
    ]


def test_a_run_ends_at_once_if_a_volume_is_missing() -> None:
    waiting = ContainerWaiting(reason="ContainerCreating", message=NO_CLAIM)
    (stuck,) = board_with(make_job(make_group(size=1), state=starting()), scheduled(0, waiting)).stuck_replicas()
    assert (stuck.reason, stuck.is_permanent) == (NO_CLAIM, True)
