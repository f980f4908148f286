"""The rules, one sentence each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.engine.decide import decide
from pliant.model.actions import CreatePod, CreateService, Decision, DeletePod, DeleteService, EmitEvent
from pliant.model.job import CleanPolicy, EndPolicy, Job, RestartPolicy, RestartRule, RestartScope
from pliant.model.observed import Exit, PodPhase, Seen
from pliant.model.state import Cause, EngineState, GroupState, Outcome, Phase
from tests.builders import NOON, PlainFramework, make_group, make_job, make_pod, restarting, seeing
from tests.engine.world import World

RUNNING = EngineState(phase=Phase.RUNNING, message="every member runs", started_at=NOON, running_at=NOON)


def decided(job: Job, seen: Seen | None = None) -> Decision:
    return decide(job, seen or Seen(), PlainFramework(), NOON)


def names(decision: Decision, kind: type) -> list[str]:
    return [action.name for action in decision.actions if isinstance(action, kind)]  # type: ignore[union-attr]


def intent_of(decision: Decision) -> EngineState:
    assert decision.intent is not None
    return decision.intent.state


def test_a_new_job_gets_its_services_its_pods_and_a_first_status() -> None:
    decision = decided(make_job(make_group("ps", 1), make_group("worker", 2)))
    members = ["demo-ps-0", "demo-worker-0", "demo-worker-1"]
    assert names(decision, CreateService) == members
    assert names(decision, CreatePod) == members
    (status,) = decision.statuses.values()
    assert status.state.phase is Phase.PENDING
    assert status.counts["worker"].pending == 2


def test_pods_that_are_there_already_are_taken_over() -> None:
    decision = decided(make_job(), seeing(make_pod(0), make_pod(1)))
    assert decision.actions == ()
    (status,) = decision.statuses.values()
    assert status.state.phase is Phase.RUNNING


def test_only_what_is_missing_is_created() -> None:
    decision = decided(make_job(state=RUNNING), seeing(make_pod(0)))
    assert names(decision, CreatePod) == ["demo-worker-1"]
    assert names(decision, CreateService) == ["demo-worker-1"]


def test_a_deleted_job_is_left_to_its_owner_references() -> None:
    assert decided(make_job(is_deleting=True), seeing(make_pod(0))) == Decision()


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ((PodPhase.PENDING, PodPhase.RUNNING), Phase.PENDING),
        ((PodPhase.SCHEDULED, PodPhase.RUNNING), Phase.CREATING),
        ((PodPhase.RUNNING, PodPhase.RUNNING), Phase.RUNNING),
        ((PodPhase.SUCCEEDED, PodPhase.RUNNING), Phase.RUNNING),
    ],
)
def test_the_slowest_member_makes_the_phase(phases: tuple[PodPhase, ...], phase: Phase) -> None:
    decision = decided(make_job(), seeing(*(make_pod(i, p) for i, p in enumerate(phases))))
    (status,) = decision.statuses.values()
    assert status.state.phase is phase


def test_a_change_of_counts_waits_until_it_settles() -> None:
    state = replace_state(phase=Phase.PENDING, written_at=NOON)
    decision = decided(
        make_job(state=state), seeing(make_pod(0, PodPhase.SCHEDULED), make_pod(1, PodPhase.PENDING))
    )
    assert not decision.statuses
    assert decision.look_again == timedelta(seconds=1)


def test_the_message_tells_who_still_runs_when_others_have_ended() -> None:
    (status,) = decided(make_job(), seeing(make_pod(0), make_pod(1, PodPhase.SUCCEEDED))).statuses.values()
    assert status.state.message == "1 member running, 1 ended"


def test_what_keeps_a_pod_from_starting_is_told_in_the_message() -> None:
    stuck = make_pod(0, PodPhase.SCHEDULED, trouble="CreateContainerError: no command")
    (status,) = decided(make_job(), seeing(stuck, make_pod(1))).statuses.values()
    assert status.state.message == "worker-0: CreateContainerError: no command"


def test_a_refused_creation_is_told_in_the_message() -> None:
    seen = replace(seeing(), refusals={"demo-worker-0": "exceeded quota"})
    (status,) = decided(make_job(), seen).statuses.values()
    assert status.state.message == "cannot create demo-worker-0: exceeded quota"


def replace_state(phase: Phase, **changes: object) -> EngineState:
    from msgspec.structs import replace as changed

    return changed(RUNNING, phase=phase, **changes)


ENDS = {
    "S": PodPhase.SUCCEEDED,
    "F": PodPhase.FAILED,
    "R": PodPhase.RUNNING,
}


@pytest.mark.parametrize(
    ("policy", "members", "is_complete"),
    [
        (EndPolicy.ANY, "RS", True),
        (EndPolicy.ANY, "RR", False),
        (EndPolicy.RANK0, "SR", True),
        (EndPolicy.RANK0, "RS", False),
        (EndPolicy.ALL, "SS", True),
        (EndPolicy.ALL, "SR", False),
        (EndPolicy.NONE, "SR", False),
    ],
)
def test_the_complete_policy_of_a_group_says_who_speaks_for_it(
    policy: EndPolicy, members: str, is_complete: bool
) -> None:
    job = make_job(make_group(complete=policy), state=RUNNING)
    decision = decided(job, seeing(*(make_pod(i, ENDS[end]) for i, end in enumerate(members))))
    assert (decision.intent is not None) is is_complete
    if is_complete:
        verdict = intent_of(decision).verdict
        assert verdict is not None
        assert verdict.phase is Phase.SUCCEED


@pytest.mark.parametrize(
    ("policy", "members", "is_failed"),
    [
        (EndPolicy.ANY, "RF", True),
        (EndPolicy.RANK0, "FR", True),
        (EndPolicy.RANK0, "RF", False),
        (EndPolicy.ALL, "FF", True),
        (EndPolicy.ALL, "FR", False),
        (EndPolicy.NONE, "FR", False),
    ],
)
def test_the_fail_policy_of_a_group_says_who_speaks_for_it(
    policy: EndPolicy, members: str, is_failed: bool
) -> None:
    job = make_job(make_group(fail=policy), state=RUNNING)
    pods = [make_pod(i, ENDS[end], code=3 if end == "F" else None) for i, end in enumerate(members)]
    decision = decided(job, seeing(*pods))
    assert (decision.intent is not None) is is_failed
    if is_failed:
        verdict = intent_of(decision).verdict
        assert verdict is not None
        assert verdict.phase is Phase.FAILED
        assert "exited with code 3" in verdict.message


@pytest.mark.parametrize(
    ("policy", "ps", "worker", "phase"),
    [
        (EndPolicy.ALL, "R", "S", None),
        (EndPolicy.ANY, "R", "S", Phase.SUCCEED),
        (EndPolicy.ALL, "S", "S", Phase.SUCCEED),
    ],
)
def test_the_complete_policy_of_the_job_says_which_groups_must_be_done(
    policy: EndPolicy, ps: str, worker: str, phase: Phase | None
) -> None:
    job = make_job(make_group("ps", 1), make_group("worker", 1), complete=policy, state=RUNNING)
    seen = seeing(make_pod(0, ENDS[ps], group="ps"), make_pod(0, ENDS[worker]))
    decision = decided(job, seen)
    if phase is None:
        assert decision.intent is None
    else:
        verdict = intent_of(decision).verdict
        assert verdict is not None
        assert verdict.phase is phase


def test_a_group_without_a_say_does_not_hold_up_completion() -> None:
    servers = make_group("ps", 1, complete=EndPolicy.NONE)
    job = make_job(servers, make_group("worker", 1), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, group="ps"), make_pod(0, PodPhase.SUCCEEDED)))
    assert intent_of(decision).phase is Phase.TERMINATING


def test_completion_beats_failure() -> None:
    job = make_job(make_group(complete=EndPolicy.ANY), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.FAILED, code=1)))
    verdict = intent_of(decision).verdict
    assert verdict is not None
    assert verdict.phase is Phase.SUCCEED


def test_a_job_that_can_no_longer_complete_fails_instead_of_hanging() -> None:
    job = make_job(make_group(fail=EndPolicy.ALL), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.FAILED, code=1)))
    verdict = intent_of(decision).verdict
    assert verdict is not None
    assert verdict.phase is Phase.FAILED
    assert verdict.message.startswith("no end policy was met")


def test_when_no_group_has_a_say_the_members_together_decide() -> None:
    job = make_job(make_group(complete=EndPolicy.NONE, fail=EndPolicy.NONE), state=RUNNING)
    ended = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.SUCCEEDED))
    verdict = intent_of(decided(job, ended)).verdict
    assert verdict is not None
    assert verdict.phase is Phase.SUCCEED


def test_the_first_cause_is_named_first() -> None:
    early = replace(make_pod(1, PodPhase.FAILED, code=7), finished_at=NOON)
    late = replace(make_pod(0, PodPhase.FAILED, code=1), finished_at=NOON + timedelta(seconds=5))
    verdict = intent_of(decided(make_job(state=RUNNING), seeing(late, early))).verdict
    assert verdict is not None
    assert verdict.message == "worker-1 exited with code 7, worker-0 exited with code 1"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (Exit(code=137), "worker-0 was killed by SIGKILL (exit code 137)"),
        (Exit(code=137, reason="OOMKilled"), "worker-0 ran out of memory (OOMKilled, exit code 137)"),
        (Exit(code=255), "worker-0 exited with code 255"),
        (
            Exit(code=128, reason="StartError", message="no such file"),
            "worker-0 could not be started (StartError): no such file",
        ),
        (Exit(code=1, message="no data"), "worker-0 exited with code 1: no data"),
        (Exit(reason="Evicted", message="disk"), "worker-0 failed: Evicted: disk"),
        (Exit(), "worker-0 failed"),
        (None, "worker-0 failed"),
    ],
)
def test_a_failure_is_told_in_plain_words(end: Exit | None, words: str) -> None:
    pod = replace(make_pod(0, PodPhase.FAILED), exit=end)
    verdict = intent_of(decided(make_job(make_group(size=1), state=RUNNING), seeing(pod))).verdict
    assert verdict is not None
    assert verdict.message == words


def test_many_causes_are_cut_short() -> None:
    pods = [make_pod(i, PodPhase.FAILED, code=1) for i in range(5)]
    verdict = intent_of(decided(make_job(make_group(size=5), state=RUNNING), seeing(*pods))).verdict
    assert verdict is not None
    assert verdict.message.endswith("and 2 more")


def failed_worker(
    rule: RestartRule, *, code: int = 1, state: EngineState = RUNNING, exit_codes: tuple[int, ...] = ()
) -> Decision:
    job = make_job(make_group("ps", 1), make_group(restart=rule), state=state, exit_codes=exit_codes)
    failed = make_pod(1, PodPhase.FAILED, code=code, attempt=state.group("worker").wanted_attempt(1))
    return decided(job, seeing(make_pod(0, group="ps"), make_pod(0), failed))


def test_a_restart_is_remembered_before_anything_is_deleted() -> None:
    decision = failed_worker(restarting(RestartScope.POD, limit=3))
    state = intent_of(decision)
    assert state.phase is Phase.RESTARTING
    assert state.group("worker") == GroupState(
        attempt=1, index_floors={1: 1}, size=2, restarts={Cause.APP: 1}, restarted_at=NOON, streak=1, streak_from=1
    )
    assert state.message == "worker-1 exited with code 1; restart 1 of 3 of worker, scope Pod"
    assert [type(action) for action in decision.actions] == [EmitEvent]


@pytest.mark.parametrize(
    ("scope", "deleted"),
    [
        (RestartScope.POD, ["demo-worker-1"]),
        (RestartScope.REPLICA, ["demo-worker-0", "demo-worker-1"]),
        (RestartScope.ALL, ["demo-ps-0", "demo-worker-0", "demo-worker-1"]),
    ],
)
def test_the_scope_says_who_is_restarted(scope: RestartScope, deleted: list[str]) -> None:
    state = intent_of(failed_worker(restarting(scope)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(scope)), state=state)
    seen = seeing(make_pod(0, group="ps"), make_pod(0), make_pod(1, PodPhase.FAILED, code=1))
    assert names(decided(job, seen), DeletePod) == deleted


def test_nobody_returns_before_all_of_the_old_generation_have_left() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.REPLICA)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(RestartScope.REPLICA)), state=state)
    leaving = make_pod(1, PodPhase.FAILED, code=1, is_leaving=True)
    waiting = decided(job, seeing(make_pod(0, group="ps"), leaving))
    assert names(waiting, CreatePod) == []
    gone = decided(job, seeing(make_pod(0, group="ps")))
    assert names(gone, CreatePod) == ["demo-worker-0", "demo-worker-1"]


def test_a_wide_restart_is_paid_for_by_every_group() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.ALL)))
    assert {name: memory.attempt for name, memory in state.groups.items()} == {"ps": 1, "worker": 1}


def test_a_new_attempt_carries_its_number() -> None:
    state = intent_of(failed_worker(restarting(RestartScope.POD)))
    job = make_job(make_group("ps", 1), make_group(restart=restarting(RestartScope.POD)), state=state)
    decision = decided(job, seeing(make_pod(0, group="ps"), make_pod(0)))
    (pod,) = [action for action in decision.actions if isinstance(action, CreatePod)]
    assert pod.manifest["metadata"]["labels"]["RestartCount"] == "1"


def test_beyond_the_limit_a_failure_fails_the_job() -> None:
    spent = replace_state(
        Phase.RUNNING, groups={"worker": GroupState(attempt=2, index_floors={1: 2}, restarts={Cause.APP: 2})}
    )
    decision = failed_worker(restarting(limit=2), state=spent)
    verdict = intent_of(decision).verdict
    assert verdict is not None
    assert verdict.phase is Phase.FAILED
    assert "worker has spent its 2 restarts" in verdict.message


@pytest.mark.parametrize(
    ("policy", "code", "is_restarted"),
    [
        (RestartPolicy.ALWAYS, 1, True),
        (RestartPolicy.ON_FAILURE, 1, True),
        (RestartPolicy.NEVER, 1, False),
        (RestartPolicy.ON_NODE_FAIL, 1, False),
        (RestartPolicy.EXIT_CODE, 137, True),
        (RestartPolicy.EXIT_CODE, 1, False),
        (RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE, 128, True),
        (RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE, 1, False),
    ],
)
def test_the_restart_policy_says_what_starts_a_restart(
    policy: RestartPolicy, code: int, is_restarted: bool
) -> None:
    decision = failed_worker(restarting(policy=policy), code=code, exit_codes=(137, 128))
    assert (intent_of(decision).phase is Phase.RESTARTING) is is_restarted


def test_without_a_restart_policy_nothing_is_restarted() -> None:
    assert intent_of(failed_worker(RestartRule())).phase is Phase.TERMINATING


def test_restarts_in_quick_succession_wait_longer_each_time() -> None:
    job = make_job(make_group(size=1, restart=restarting(limit=5)))
    world = World(job, lambda pod: 1)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.group("worker").streak == 5
    assert world.now - NOON >= timedelta(seconds=1 + 2 + 4 + 8)


def test_the_wait_is_forgotten_after_a_calm_while() -> None:
    long_ago = NOON - timedelta(minutes=11)
    tired = GroupState(attempt=9, index_floors={1: 9}, restarts={Cause.APP: 9}, restarted_at=long_ago, streak=9)
    state = intent_of(failed_worker(restarting(), state=replace_state(Phase.RUNNING, groups={"worker": tired})))
    assert state.group("worker").streak == 1


def test_one_wide_restart_covers_all_failures_of_the_moment() -> None:
    group = make_group(restart=restarting(RestartScope.REPLICA))
    failed = [make_pod(i, PodPhase.FAILED, code=1) for i in range(2)]
    state = intent_of(decided(make_job(group, state=RUNNING), seeing(*failed)))
    assert state.group("worker").restarts == {Cause.APP: 1}


def test_an_ended_member_whose_pod_is_lost_does_not_train_again() -> None:
    state = replace_state(Phase.RUNNING, groups={"worker": GroupState(finished={0: Outcome.SUCCEEDED})})
    decision = decided(make_job(state=state), seeing(make_pod(1)))
    assert names(decision, CreatePod) == []


def test_an_ended_job_clears_away_its_pods_and_services_and_then_says_so() -> None:
    job = make_job(make_group(size=1))
    world = World(job, lambda pod: 0)
    world.settle()
    assert world.phases == [Phase.PENDING, Phase.RUNNING, Phase.TERMINATING, Phase.SUCCEED]
    assert world.pods == {}
    assert world.services == {}
    assert world.job.state is not None
    assert world.job.state.ended_at is not None


def test_a_job_may_keep_its_pods_at_the_end() -> None:
    world = World(make_job(make_group(size=1), clean=CleanPolicy.NONE), lambda pod: 0)
    world.settle()
    assert world.phases[-1] is Phase.SUCCEED
    assert set(world.pods) == {"demo-worker-0"}


def test_what_turns_up_after_the_end_is_cleared_away() -> None:
    over = replace_state(Phase.SUCCEED)
    decision = decided(make_job(state=over), seeing(make_pod(0)))
    assert names(decision, DeletePod) == ["demo-worker-0"]
    assert names(decision, DeleteService) == ["demo-worker-0"]


def test_shrinking_retires_the_highest_index_first_and_its_service_after_it() -> None:
    pods = [make_pod(i) for i in range(4)]
    decision = decided(make_job(make_group(size=2), state=RUNNING), seeing(*pods))
    assert names(decision, DeletePod) == ["demo-worker-3", "demo-worker-2"]
    later = decided(
        make_job(make_group(size=2), state=RUNNING), seeing(*pods[:2], services=[pod.name for pod in pods])
    )
    assert names(later, DeleteService) == ["demo-worker-2", "demo-worker-3"]


def test_growing_stays_running_and_creates_the_missing_members() -> None:
    decision = decided(make_job(make_group(size=3), state=RUNNING), seeing(make_pod(0), make_pod(1)))
    assert names(decision, CreatePod) == ["demo-worker-2"]
    assert all(status.state.phase is Phase.RUNNING for status in decision.statuses.values())


def test_a_retired_member_that_fails_is_no_failure() -> None:
    retired = make_pod(2, PodPhase.FAILED, code=1)
    decision = decided(make_job(state=RUNNING), seeing(make_pod(0), make_pod(1), retired))
    assert decision.intent is None


def test_the_timeline_is_bounded() -> None:
    world = World(make_job(make_group(size=1, restart=restarting(limit=40))), lambda pod: 1)
    world.settle(rounds=2000)
    assert world.job.state is not None
    assert len(world.job.state.timeline) == 24


def test_a_job_without_members_rests() -> None:
    world = World(make_job(make_group(size=0)), lambda pod: 0)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.message == "the job has no members"
