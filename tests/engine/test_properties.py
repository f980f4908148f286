"""What holds for any job, any cluster, any order of events and any moment of being cut off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.engine.decide import decide
from pliant.model.actions import CreatePod, CreateService, Decision, DeletePod
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, RestartScope
from pliant.model.labels import REPLICA
from pliant.model.observed import ObservedPod, PodPhase
from pliant.model.state import LEGAL_MOVES
from tests.builders import NOON, PlainFramework, make_group, make_job, restarting
from tests.engine.world import Ending, World

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


@st.composite
def restarting_jobs(draw: st.DrawFn) -> Job:
    """Jobs that are likely to be in the middle of a restart."""
    rule = st.builds(restarting, scope=st.sampled_from(RestartScope), limit=st.integers(1, 3))
    names = ("ps", "worker")[: draw(st.integers(1, 2))]
    return make_job(*(make_group(name, draw(st.integers(1, 3)), restart=draw(rule)) for name in names))


codes = st.lists(st.sampled_from((0, 0, 1, 137)), min_size=4, max_size=12)
codes_of_some_that_run_on = st.lists(st.sampled_from((-1, -1, 0, 1)), min_size=3, max_size=12)
History = list[tuple[str, int | None]]
cuts = st.one_of(st.none(), st.integers(0, 5))
step = st.one_of(
    st.tuples(st.just("all step"), cuts),
    st.tuples(st.just("step"), st.integers(0, 5)),
    st.tuples(st.just("decide"), cuts),
    st.tuples(st.just("wait"), st.integers(0, 3)),
)
steps = st.lists(step, max_size=60)
many_steps = st.lists(step, min_size=25, max_size=60)
Check = Callable[[World, Decision], None]


def scripted(script: list[int]) -> Ending:
    """Exit codes that depend on who ends and at which attempt, never on chance."""

    def ending(pod: ObservedPod) -> int:
        place = pod.index + (7 if pod.group == "ps" else 0)
        return script[(place + pod.attempt * 3) % len(script)]

    return ending


def nothing(world: World, decision: Decision) -> None:
    """No check along the way."""


def live(world: World, history: History, check: Check = nothing) -> World:
    """Let a world go through some history, in which every decision may be cut off after any write."""
    for what, number in history:
        names = sorted(world.pods)
        if what == "wait":
            world.pass_time(timedelta(seconds=number or 0))
            continue
        if what == "step" and names:
            world.step(names[(number or 0) % len(names)])
        if what == "all step":
            for name in names:
                world.step(name)
        decision = world.decide()
        check(world, decision)
        if what != "step":
            world.perform(decision, cut_after=number)
    return world


def played(job: Job, script: list[int], history: History, check: Check = nothing) -> World:
    return live(World(job, scripted(script)), history, check)


@given(jobs(), codes, steps)
def test_a_job_comes_to_rest_though_cut_off_after_any_write(job: Job, script: list[int], history: History) -> None:
    world = played(job, script, history)
    world.settle()
    decision = world.decide()
    assert decision.intent is None
    assert not decision.actions
    assert not decision.statuses


@given(jobs(), codes, steps)
def test_every_member_ends_so_every_job_with_members_ends(job: Job, script: list[int], history: History) -> None:
    world = played(job, script, history)
    world.settle()
    assert world.job.state is not None
    assert world.job.state.phase.is_final or not any(group.size for group in job.groups)


@given(st.one_of(jobs(), restarting_jobs()), codes, many_steps)
def test_no_member_is_made_twice_at_the_same_attempt(job: Job, script: list[int], history: History) -> None:
    world = played(job, script, history)
    world.settle()
    assert len(world.created) == len(set(world.created))


@given(jobs(), st.sets(st.integers(0, 2)))
def test_a_member_that_ended_is_not_made_again_though_its_pod_is_lost(job: Job, ended: set[int]) -> None:
    world = World(job, lambda pod: 0 if pod.index in ended else -1)
    world.settle()
    for name in [name for name, pod in world.pods.items() if pod.phase is PodPhase.SUCCEEDED]:
        del world.pods[name]
    world.settle()
    assert len(world.created) == len(set(world.created))


@given(jobs(), codes, steps)
def test_phases_move_only_along_legal_ways(job: Job, script: list[int], history: History) -> None:
    world = played(job, script, history)
    world.settle()
    assert_legal(world)


def assert_legal(world: World) -> None:
    for before, after in pairwise(world.phases):
        assert after in LEGAL_MOVES[before], (before, after)


@given(jobs(), codes, steps)
def test_a_restart_budget_is_never_overspent_by_the_group_that_triggers(
    job: Job, script: list[int], history: History
) -> None:
    world = played(job, script, history)
    world.settle()
    assert world.job.state is not None
    limits = [group.restart.limit for group in job.groups if group.restart.limit is not None]
    for group in job.groups:
        spent = world.job.state.group(group.name).spent
        # A wide restart is paid for by every group, but triggered only within the trigger's own limit.
        assert spent <= sum(limits)
        if len(job.groups) == 1 and group.restart.limit is not None:
            assert spent <= group.restart.limit


@given(jobs(), codes, steps)
def test_a_finished_job_creates_nothing(job: Job, script: list[int], history: History) -> None:
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
def test_the_order_of_pods_is_irrelevant(job: Job, script: list[int], history: History, lots: Any) -> None:
    world = played(job, script, history)

    def shuffled(pods: list[ObservedPod]) -> list[ObservedPod]:
        lots.shuffle(pods)
        return pods

    other = decide(world.job, world.seen(shuffled), PlainFramework(), world.now)
    assert other == world.decide()


@given(restarting_jobs(), codes_of_some_that_run_on, many_steps)
def test_what_is_leaving_is_left_alone(job: Job, script: list[int], history: History) -> None:
    def check(world: World, decision: Decision) -> None:
        leaving = {pod.name for pod in world.pods.values() if pod.is_leaving}
        touched = {action.name for action in decision.actions if isinstance(action, DeletePod | CreatePod)}
        assert not leaving & touched

    played(job, script, history, check)


@given(restarting_jobs(), codes_of_some_that_run_on, many_steps)
def test_generations_never_meet(job: Job, script: list[int], history: History) -> None:
    def check(world: World, decision: Decision) -> None:
        state = world.job.state
        newcomers = [action for action in decision.actions if isinstance(action, CreatePod)]
        if state is None or not newcomers:
            return
        groups = {action.manifest["metadata"]["labels"][REPLICA] for action in newcomers}
        for pod in world.pods.values():
            memory = state.group(pod.group)
            assert pod.attempt >= memory.job_floor
            assert pod.group not in groups or pod.attempt >= memory.group_floor

    played(job, script, history, check)


@given(jobs(), steps, st.lists(st.integers(0, 5), max_size=6))
def test_pods_deleted_by_hand_come_back_and_cost_nothing(job: Job, history: History, victims: list[int]) -> None:
    world = World(job, lambda pod: -1)
    for victim in victims:
        live(world, history)
        if world.pods:
            world.remove_by_hand(sorted(world.pods)[victim % len(world.pods)])
    world.settle()
    assert len(world.pods) == sum(group.size for group in job.groups)
    assert world.job.state is not None
    assert world.job.state.verdict is None
    assert all(memory.spent == 0 for memory in world.job.state.groups.values())
    assert_legal(world)


@given(jobs(), codes, steps)
def test_members_are_announced_before_they_start(job: Job, script: list[int], history: History) -> None:
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
