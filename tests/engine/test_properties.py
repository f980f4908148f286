"""What holds for any job, any cluster, any order of events and any moment of being cut off."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.engine.decide import decide
from pliant.engine.restarting import total
from pliant.model.actions import CreatePod, CreateService, DeletePod
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, RestartScope
from pliant.model.observed import ObservedPod
from pliant.model.state import LEGAL_MOVES
from tests.builders import NOON, PlainFramework, make_group, make_job, restarting
from tests.engine.world import World

rules = st.one_of(
    st.none(),
    st.builds(restarting, scope=st.sampled_from(RestartScope), limit=st.integers(0, 3)),
)
policies = st.sampled_from(EndPolicy)


@st.composite
def groups(draw: st.DrawFn, name: str) -> Group:
    return make_group(
        name, draw(st.integers(0, 3)), complete=draw(policies), fail=draw(policies), restart=draw(rules)
    )


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    members = [draw(groups(name)) for name in ("ps", "worker")[: draw(st.integers(1, 2))]]
    ends = st.sampled_from((EndPolicy.ANY, EndPolicy.ALL))
    return make_job(*members, complete=draw(ends), fail=draw(ends), clean=draw(st.sampled_from(CleanPolicy)))


codes = st.lists(st.sampled_from((0, 0, 1, 137)), min_size=4, max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("decide"), st.one_of(st.none(), st.integers(0, 5))),
        st.tuples(st.just("step"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(0, 3)),
    ),
    max_size=60,
)


def scripted(script: list[int]) -> Any:
    """Exit codes that depend on who ends and at which attempt, never on chance."""

    def ending(pod: ObservedPod) -> int:
        place = pod.index + (7 if pod.group == "ps" else 0)
        return script[(place + pod.attempt * 3) % len(script)]

    return ending


def played(job: Job, script: list[int], history: list[tuple[str, int | None]]) -> World:
    """A world after some history, in which every decision may have been cut off after any write."""
    world = World(job, scripted(script))
    for what, number in history:
        names = sorted(world.pods)
        if what == "decide":
            world.perform(world.decide(), cut_after=number)
        elif what == "step" and names:
            world.step(names[(number or 0) % len(names)])
        elif what == "wait":
            world.pass_time(timedelta(seconds=number or 0))
    return world


def live_state(world: World) -> tuple[object, ...]:
    return (world.job.state, world.pods, world.services)


@given(jobs(), codes, steps)
def test_a_job_comes_to_rest_though_cut_off_after_any_write(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    decision = world.decide()
    assert decision.intent is None
    assert not decision.actions
    assert not decision.statuses


@given(jobs(), codes, steps)
def test_every_member_ends_so_every_job_with_members_ends(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.phase.is_final or not any(group.size for group in job.groups)


@given(jobs(), codes, steps)
def test_no_member_is_made_twice_at_the_same_attempt(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    assert len(world.created) == len(set(world.created))


@given(jobs(), codes, steps)
def test_phases_move_only_along_legal_ways(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    for before, after in pairwise(world.phases):
        assert after in LEGAL_MOVES[before], (before, after)


@given(jobs(), codes, steps)
def test_a_restart_budget_is_never_overspent_by_the_group_that_triggers(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    assert world.job.state is not None
    limits = [group.restart.limit for group in job.groups if group.restart.limit is not None]
    for group in job.groups:
        spent = total(world.job.state.group(group.name))
        # A wide restart is paid for by every group, but triggered only within the trigger's own limit.
        assert spent <= sum(limits)
        if len(job.groups) == 1 and group.restart.limit is not None:
            assert spent <= group.restart.limit


@given(jobs(), codes, steps)
def test_a_finished_job_creates_nothing(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    world.settle()
    world.pods.clear()
    world.services.clear()
    assert world.job.state is not None
    if world.job.state.phase.is_final:
        decision = world.decide()
        assert decision.actions == ()
        assert not decision.statuses


@given(jobs(), codes, steps, st.randoms(use_true_random=False))
def test_the_order_of_pods_is_irrelevant(
    job: Job, script: list[int], history: list[tuple[str, int | None]], lots: Any
) -> None:
    world = played(job, script, history)

    def shuffled(pods: list[ObservedPod]) -> list[ObservedPod]:
        lots.shuffle(pods)
        return pods

    other = decide(world.job, world.seen(shuffled), PlainFramework(), world.now)
    assert other == world.decide()


@given(jobs(), codes, steps)
def test_what_is_leaving_is_left_alone(job: Job, script: list[int], history: list[tuple[str, int | None]]) -> None:
    world = played(job, script, history)
    leaving = {pod.name for pod in world.pods.values() if pod.is_leaving}
    touched = {action.name for action in world.decide().actions if isinstance(action, DeletePod | CreatePod)}
    assert not leaving & touched


@given(jobs(), codes, steps)
def test_generations_never_meet(job: Job, script: list[int], history: list[tuple[str, int | None]]) -> None:
    world = played(job, script, history)
    state = world.job.state
    for action in world.decide().actions:
        if not isinstance(action, CreatePod) or state is None:
            continue
        group = action.manifest["metadata"]["labels"]["TrainingJobReplicaName"]
        for pod in world.pods.values():
            memory = state.group(pod.group)
            assert pod.attempt >= memory.job_floor
            assert pod.group != group or pod.attempt >= memory.group_floor


@given(jobs(), codes, steps, st.lists(st.integers(0, 5), max_size=6))
def test_pods_deleted_by_hand_come_back_and_cost_no_budget(
    job: Job, script: list[int], history: list[tuple[str, int | None]], victims: list[int]
) -> None:
    world = World(job, lambda pod: -1)
    for victim in victims:
        for what, number in history:
            if what == "decide":
                world.perform(world.decide(), cut_after=number)
            elif what == "step" and world.pods:
                world.step(sorted(world.pods)[(number or 0) % len(world.pods)])
        if world.pods:
            world.pods.pop(sorted(world.pods)[victim % len(world.pods)])
    world.settle()
    assert len(world.pods) == sum(group.size for group in job.groups)
    assert world.job.state is not None
    assert all(total(memory) == 0 for memory in world.job.state.groups.values())


@given(jobs(), codes, steps)
def test_members_are_announced_before_they_start(
    job: Job, script: list[int], history: list[tuple[str, int | None]]
) -> None:
    world = played(job, script, history)
    actions = world.decide().actions
    kinds = [type(action) for action in actions if isinstance(action, CreatePod | CreateService)]
    assert kinds == sorted(kinds, key=lambda kind: kind is CreatePod)


@given(jobs(), codes)
@settings(max_examples=30)
def test_a_job_brought_up_costs_two_status_writes_and_then_none(job: Job, script: list[int]) -> None:
    world = World(job, lambda pod: -1, now=NOON)
    world.settle()
    settled = world.status_writes
    assert settled <= 4
    world.pass_time(timedelta(hours=1))
    assert world.decide().statuses == {}
    assert world.decide().actions == ()
