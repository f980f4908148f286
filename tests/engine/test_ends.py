"""What happens to a job that has ended."""

from __future__ import annotations

from pliant.model.actions import DeletePod, DeleteService
from pliant.model.job import CleanPodPolicy, EndPolicy
from pliant.model.messages import MessageReason, message
from pliant.model.state import JobOutcome, JobPhase
from tests.builders import NOON, make_group, make_job, make_pod, seeing
from tests.engine.rulings import actions_of, decided, names, remembering, status_of
from tests.engine.world import World


def test_an_ended_job_clears_away_its_pods_and_services_and_then_says_so() -> None:
    job = make_job(make_group(size=1))
    world = World(job, lambda pod: 0)
    world.settle()
    assert world.phases == [JobPhase.PENDING, JobPhase.RUNNING, JobPhase.TERMINATING, JobPhase.SUCCEED]
    assert world.pods == {}
    assert world.services == {}
    assert world.job.state is not None
    assert world.job.state.ended_at is not None


def test_a_job_may_keep_its_pods_at_the_end() -> None:
    world = World(make_job(make_group(size=1), clean=CleanPodPolicy.NONE), lambda pod: 0)
    world.settle()
    assert world.phases[-1] is JobPhase.SUCCEED
    assert set(world.pods) == {"demo-worker-0"}


def test_a_job_may_keep_the_pods_that_have_ended_and_clear_away_the_others() -> None:
    serving = make_group("ps", size=1, complete=EndPolicy.NONE)
    job = make_job(make_group(size=2), serving, clean=CleanPodPolicy.RUNNING)
    world = World(job, lambda pod: 0 if pod.group == "worker" else -1)
    world.settle()
    assert world.phases[-2:] == [JobPhase.TERMINATING, JobPhase.SUCCEED]
    assert set(world.pods) == set(world.services) == {"demo-worker-0", "demo-worker-1"}
    assert world.memory.replica_counts["ps"].active == 0


def test_what_turns_up_after_the_end_is_cleared_away() -> None:
    over = remembering(JobPhase.SUCCEED)
    decision = decided(make_job(state=over), seeing(make_pod(0)))
    assert names(decision, DeletePod) == ["demo-worker-0"]
    assert names(decision, DeleteService) == ["demo-worker-0"]


def test_pods_that_are_to_be_kept_after_all_do_not_hold_up_the_end() -> None:
    verdict = JobOutcome(phase=JobPhase.SUCCEED, message=message(MessageReason.TRAINING_COMPLETED), at=NOON)
    job = make_job(state=remembering(JobPhase.TERMINATING, outcome=verdict), clean=CleanPodPolicy.NONE)
    decision = decided(job, seeing(make_pod(0)))
    assert actions_of(decision) == ()
    assert status_of(decision).phase is JobPhase.SUCCEED


def test_pods_that_were_kept_go_when_they_are_no_longer_wanted() -> None:
    job = make_job(state=remembering(JobPhase.SUCCEED, ended_at=NOON), clean=CleanPodPolicy.ALL)
    assert names(decided(job, seeing(make_pod(0))), DeletePod) == ["demo-worker-0"]
