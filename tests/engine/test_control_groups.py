"""A framework may add a replica that serves all others: it has no rank, and the job ends without it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from pliant.engine.decide import decide
from pliant.model.actions import Act, CreatePod, DeletePod, PersistTransition
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, ReplicaGroup, RestartPolicy, RestartRule, RestartScope
from pliant.model.observed import NodeFault, ObservedPod, PodExit, PodPhase
from pliant.model.state import JobPhase
from tests.builders import NOON, PlainFramework, StoredJob, make_group, make_job, make_pod, restarting, seeing

STORE = make_group(
    "rendezvous",
    1,
    is_control=True,
    complete=EndPolicy.NONE,
    restart=RestartRule(policy=RestartPolicy.ALWAYS, scope=RestartScope.ALL),
    unusable_markers=("RendezvousClosedError",),
)


class WithStore(PlainFramework):
    def control_group(self, job: Job) -> ReplicaGroup | None:
        return None if job.has_rendezvous_store is False else STORE


def elastic_job(clean: CleanPodPolicy = CleanPodPolicy.ALL) -> StoredJob:
    return make_job(make_group(size=2, is_elastic=True, max_size=4, restart=restarting(limit=1)), clean=clean)


def store(phase: PodPhase = PodPhase.RUNNING, **fields: object) -> ObservedPod:
    return make_pod(0, phase, group="rendezvous", **fields)  # type: ignore[arg-type]


def ask(job: StoredJob, *pods: ObservedPod, later: int = 0) -> Act | PersistTransition:
    return decide(job, job.state, seeing(*pods), WithStore(), NOON + timedelta(seconds=later))


def advanced(job: StoredJob, *pods: ObservedPod, later: int = 0) -> StoredJob:
    """The job after the next write of its status."""
    decision = ask(job, *pods, later=later)
    assert decision.status is not None, decision
    return replace(job, state=decision.status.state)


def running() -> StoredJob:
    return advanced(elastic_job(), make_pod(0), make_pod(1), store())


def deleted(decision: Act | PersistTransition) -> list[str]:
    assert isinstance(decision, Act)
    return [action.name for action in decision.actions if isinstance(action, DeletePod)]


def test_the_store_starts_with_the_replicas_and_is_in_no_count() -> None:
    decision = ask(elastic_job())
    assert isinstance(decision, Act)
    created = [action.name for action in decision.actions if isinstance(action, CreatePod)]
    assert created == ["demo-worker-0", "demo-worker-1", "demo-rendezvous-0"]
    state = running().state
    assert state is not None
    assert state.phase is JobPhase.RUNNING
    assert set(state.replica_counts) == {"worker"}
    assert state.membership is not None
    assert state.membership.indexes == {"worker": "0-1"}


def test_the_job_is_not_running_without_its_store() -> None:
    state = advanced(elastic_job(), make_pod(0), make_pod(1), store(PodPhase.PENDING)).state
    assert state is not None
    assert state.phase is not JobPhase.RUNNING


def test_the_loss_of_the_store_restarts_all_replicas_at_no_charge() -> None:
    pods = make_pod(0), make_pod(1, PodPhase.FAILED, code=1), store(PodPhase.FAILED, code=137)
    decision = ask(running(), *pods)
    assert isinstance(decision, PersistTransition)
    state = decision.status.state
    assert state.phase is JobPhase.RESTARTING
    assert state.restart_count == 0
    assert state.group("worker").restarts_without_disruptions == 0
    job = replace(running(), state=state)
    assert deleted(ask(job, *pods)) == ["demo-worker-0", "demo-worker-1", "demo-rendezvous-0"]


def test_failures_beside_a_store_on_a_faulty_node_are_not_charged() -> None:
    fault = NodeFault(description="is not ready", since=NOON)
    pods = make_pod(0, PodPhase.FAILED, code=1), make_pod(1), store(node="n1", node_fault=fault)
    decision = ask(running(), *pods)
    assert isinstance(decision, PersistTransition)
    assert decision.status.state.restart_count == 0
    assert decision.status.state.group("worker").restarts_without_disruptions == 0


def test_replicas_that_cannot_use_the_store_any_more_restart_with_it() -> None:
    said = PodExit(code=1, container="trainer", last_log_lines="…\ntorch.RendezvousClosedError")
    pods = make_pod(0), make_pod(1, PodPhase.FAILED), store()
    pods = pods[0], replace(pods[1], exit=said), pods[2]
    job = advanced(running(), *pods)
    assert job.state is not None
    assert job.state.restart_count == 0
    assert deleted(ask(job, *pods)) == ["demo-worker-0", "demo-worker-1", "demo-rendezvous-0"]


def test_a_job_that_runs_without_a_store_does_not_get_one() -> None:
    pods = make_pod(0), make_pod(1)
    job = advanced(replace(elastic_job(), has_rendezvous_store=False), *pods)
    decision = ask(replace(job, has_rendezvous_store=None), *pods)
    assert isinstance(decision, Act)
    assert decision.actions == ()


def test_a_job_that_runs_with_a_store_keeps_it_until_it_is_suspended() -> None:
    pods = make_pod(0), make_pod(1), store()
    job = replace(running(), has_rendezvous_store=False)
    assert deleted(ask(job, *pods)) == []
    suspended = advanced(replace(job, is_suspended=True), *pods)
    resumed = advanced(replace(suspended, is_suspended=False))
    decision = ask(resumed)
    assert isinstance(decision, Act)
    assert [each.name for each in decision.actions if isinstance(each, CreatePod)] == ["demo-worker-0", "demo-worker-1"]


def test_a_restart_of_all_replicas_keeps_the_store() -> None:
    group = make_group(size=2, is_elastic=True, restart=restarting(scope=RestartScope.ALL, limit=3))
    job = advanced(make_job(group), make_pod(0), make_pod(1), store())
    pods = make_pod(0), make_pod(1, PodPhase.FAILED, code=1), store()
    job = advanced(job, *pods)
    assert deleted(ask(job, *pods)) == ["demo-worker-0", "demo-worker-1"]


def test_the_store_is_deleted_with_the_job_even_if_pods_are_kept() -> None:
    for clean in CleanPodPolicy:
        ended = make_pod(0, PodPhase.SUCCEEDED, code=0), make_pod(1, PodPhase.SUCCEEDED, code=0), store()
        job = advanced(advanced(elastic_job(clean), make_pod(0), make_pod(1), store()), *ended)
        assert job.state is not None
        assert job.state.outcome is not None
        assert job.state.outcome.phase is JobPhase.SUCCEED
        assert "demo-rendezvous-0" in deleted(ask(job, *ended)), clean


def test_the_store_stays_as_long_as_replicas_save_their_state() -> None:
    workers = [make_pod(index, acknowledged_checkpoint=0) for index in (0, 1)]
    job = advanced(replace(running(), is_suspended=True), *workers, store())
    assert deleted(ask(job, *workers, store())) == []
    assert deleted(ask(job, *workers, store(), later=31)) == ["demo-rendezvous-0", "demo-worker-0", "demo-worker-1"]
