"""Jobs and histories for Hypothesis to make up: what members, nodes, people and time may do to a job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st

from pliant.model.job import (
    CleanPodPolicy,
    EndPolicy,
    EndRequest,
    ReplicaGroup,
    ResizeMode,
    RestartPolicy,
    RestartRule,
    RestartScope,
)
from pliant.model.observed import ObservedPod
from pliant.model.state import JobPhase, SizeRequester
from tests.builders import StoredJob, make_group, make_job
from tests.depth import ENGINE_EXAMPLES
from tests.engine.laws import check, check_at_rest
from tests.engine.world import BRIEF, NODES, OVER, Check, Ending, Obstacle, World

many = settings(max_examples=ENGINE_EXAMPLES)
"""More examples than for other properties: the laws are cheap to try, and bugs in the engine are expensive."""

History = list[tuple[str, int]]
DAILY = ("all step", "all step", "all step", "step", "decide", "wait")
"""What happens on any day; the number of a decision says after how many writes it is cut off, if below 5."""

STORE, LASTING_ATTEMPT = "store", 3
"""The replica that serves all others, and from which attempt on it runs for ever."""

policies = st.sampled_from(EndPolicy)
ends = st.sampled_from((EndPolicy.ANY, EndPolicy.ALL))
scopes = st.sampled_from(RestartScope)
rules = st.builds(RestartRule, policy=st.sampled_from([None, *RestartPolicy]), scope=scopes, limit=st.integers(0, 3))
eager_rules = st.builds(RestartRule, policy=st.just(RestartPolicy.ALWAYS), scope=scopes, limit=st.integers(1, 3))
ways = st.sampled_from((ResizeMode.JOIN, ResizeMode.JOIN, ResizeMode.RESTART, ResizeMode.FIXED))
spans = st.integers(0, 100).map(lambda number: timedelta(seconds=number))
codes = st.lists(st.sampled_from((0, 0, 1, 137)), min_size=4, max_size=12)
codes_of_some_that_run_on = st.lists(st.sampled_from((-1, -1, 0, 1)), min_size=3, max_size=12)


@st.composite
def groups(draw: st.DrawFn, name: str, rule: st.SearchStrategy[RestartRule], least_members: int = 0) -> ReplicaGroup:
    size = draw(st.integers(least_members, 3))
    is_elastic = draw(st.booleans())
    return make_group(
        name,
        size,
        complete=draw(policies),
        fail=draw(policies),
        restart=draw(rule),
        requested_sizes={SizeRequester.SPEC: size} if draw(st.booleans()) else {},
        is_elastic=is_elastic,
        min_size=draw(st.integers(0, size)) if is_elastic else 0,
        max_size=draw(st.integers(size, 5)) if is_elastic else None,
        is_autoscaled=is_elastic and draw(st.booleans()),
        resize_mode=draw(ways),
        fixed_size_reason="they count each other",
    )


@st.composite
def jobs(draw: st.DrawFn, *, has_limits: bool = False) -> StoredJob:
    """Any job; one with limits in time has all of them."""
    names = ("worker", "ps")[: draw(st.integers(1, 2))]
    limits = spans if has_limits else st.none()
    return make_job(
        *(draw(groups(name, rules)) for name in names),
        complete=draw(ends),
        fail=draw(ends),
        clean=draw(st.sampled_from(CleanPodPolicy)),
        exit_codes=(137,),
        is_fault_tolerant=draw(st.booleans()),
        time_limit=draw(limits),
        start_limit=draw(limits),
        ttl_after_finished=draw(limits),
    )


@st.composite
def restarting_groups(draw: st.DrawFn, name: str) -> ReplicaGroup:
    return make_group(
        name, draw(st.integers(1, 3)), restart=draw(eager_rules), resize_mode=draw(ways), fixed_size_reason="for good"
    )


@st.composite
def restarting_jobs(draw: st.DrawFn) -> StoredJob:
    """Jobs that are likely to be in the middle of a restart."""
    names = ("worker", "ps")[: draw(st.integers(1, 2))]
    return make_job(*(draw(restarting_groups(name)) for name in names))


@st.composite
def jobs_with_store(draw: st.DrawFn) -> StoredJob:
    """Jobs with a replica that the framework adds, and that all others need."""
    worker = draw(groups("worker", rules))
    store = make_group(
        STORE,
        1,
        is_control=True,
        complete=EndPolicy.NONE,
        restart=RestartRule(policy=RestartPolicy.ALWAYS, scope=RestartScope.ALL),
    )
    return make_job(worker, store, clean=draw(st.sampled_from(CleanPodPolicy)), is_fault_tolerant=draw(st.booleans()))


def histories(*special: str, longest: int = 40) -> st.SearchStrategy[History]:
    """Daily life, in which something special happens now and then."""
    what = st.sampled_from((*DAILY, *special))
    return st.lists(st.tuples(what, st.integers(0, 12)), min_size=longest // 3, max_size=longest)


def scripted(script: list[int]) -> Ending:
    """Exit codes that depend on who ends and at which attempt, never on chance."""

    def ending(pod: ObservedPod) -> int:
        if pod.group == STORE and pod.attempt >= LASTING_ATTEMPT:
            return -1
        place = pod.index + (7 if pod.group == "ps" else 0)
        return script[(place + pod.attempt * 3) % len(script)]

    return ending


def hindered(obstacles: set[int]) -> Obstacle:
    """Containers of some attempts cannot be created."""
    return lambda pod: (pod.index + pod.attempt) % 5 in obstacles


def world_of(job: StoredJob, script: list[int], obstacles: set[int] | None = None, *, is_strict: bool = False) -> World:
    """A world in which everything is scripted but its history."""
    operator = replace(BRIEF, should_fail_on_creation_timeout=is_strict)
    return World(job, scripted(script), obstacle=hindered(obstacles or set()), rules=operator, saves_state=True)


def live(world: World, history: History, check: Check = check) -> World:
    """Let a world go through some history, in which every decision may be cut off after any write."""
    for what, number in history:
        if what in MISCHIEF:
            MISCHIEF[what](world, number)
        elif what == "wait":
            world.pass_time(timedelta(seconds=number))
            continue
        elif what == "step":
            _step(world, number)
        elif what == "all step":
            for name in sorted(world.pods):
                world.step(name)
        decision = world.decide()
        check(world, decision)
        if what in ("all step", "decide"):
            world.perform(decision, cut_after=number if number < 5 else None)
    return world


def come_to_rest(world: World) -> World:
    """Let everything happen that still will; every law holds all the way and in the end."""
    world.settle(rounds=1000, check=check)
    check_at_rest(world)
    return world


def mend(world: World) -> World:
    """Take away all that could keep members from running to their end."""
    world.faults.clear()
    world.obstacle = lambda pod: False
    world.resume()
    return world


def _chosen(world: World, number: int) -> str | None:
    names = sorted(world.pods)
    return names[number % len(names)] if names else None


def _step(world: World, number: int) -> None:
    if (name := _chosen(world, number)) is not None:
        world.step(name)


def _remove(world: World, number: int) -> None:
    name = _chosen(world, number)
    # Who has ended is forgotten if its pod goes before its end was written: nobody can do anything about that.
    if name is not None and world.pods[name].phase not in OVER:
        world.remove_by_hand(name)


def _evict(world: World, number: int) -> None:
    name = _chosen(world, number)
    if name is not None and world.pods[name].node and world.pods[name].phase not in OVER:
        world.evict(name)


def _turn_node(world: World, number: int, *, is_dead: bool) -> None:
    node = NODES[number % len(NODES)]
    if world.faults.pop(node, None) is None:
        world.break_node(node, is_dead=is_dead)


def _bound(world: World, number: int) -> None:
    least = number % 3
    world.edit_group("worker", min_size=least, max_size=least + number // 3, is_elastic=True)


def _order(world: World, number: int) -> None:
    if number > 8:  # otherwise few jobs would live long
        phase = (JobPhase.FAILED, JobPhase.NODE_FAIL, JobPhase.PREEMPTED)[number % 3]
        world.edit(end_request=EndRequest(phase=phase, message="ordered"))


def _garble(world: World, number: int) -> None:
    """Somebody writes a number of their own into the annotation of a pod, or deletes it."""
    name = _chosen(world, number)
    if name is not None:
        known = (None, 0, number, 10**15)[number % 4]
        world.pods[name] = replace(world.pods[name], acknowledged_checkpoint=known)


def _lose_status(world: World, number: int) -> None:
    """Somebody deletes the status: what it says is lost, but never the end of a job."""
    if number == 12 and world.job.state is not None and world.memory.outcome is None:
        world.forget()


MISCHIEF: dict[str, Callable[[World, int], None]] = {
    "remove": _remove,
    "evict": _evict,
    "node": lambda world, number: _turn_node(world, number, is_dead=True),
    "device": lambda world, number: _turn_node(world, number, is_dead=False),
    "drain": lambda world, number: world.draining.symmetric_difference_update({NODES[number % len(NODES)]}),
    "scale": lambda world, number: world.resize("worker", scale=number % 6),
    "edit": lambda world, number: world.resize("worker", spec=number % 6),
    "bound": _bound,
    "wish": lambda world, number: world.wish("worker", number % 6, is_order=number != 11),
    "silence": lambda world, number: world.wishes.clear(),
    "way": lambda world, number: world.edit_group(
        "worker", resize_mode=list(ResizeMode)[number % 3], fixed_size_reason="from now on"
    ),
    "suspend": lambda world, number: world.suspend(),
    "resume": lambda world, number: world.resume(),
    "order": _order,
    "clean": lambda world, number: world.edit(clean_pod_policy=list(CleanPodPolicy)[number % 3]),
    "grace": lambda world, number: world.edit(checkpoint_grace=timedelta(seconds=number * number)),
    "garble": _garble,
    "lose status": _lose_status,
    "limit": lambda world, number: world.edit(time_limit=timedelta(seconds=10 * number)),
    "wait long": lambda world, number: world.pass_time(timedelta(seconds=15 * number)),
}
"""Everything special that may happen to a job."""
