"""Whatever happens to a job, its master keeps within bounds, takes one step at a time, and comes to rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pliant.master.brain.state import load_brain_state
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import MasterRoleSpec, MemberStatus, PodResources
from tests.master.brain.world import World, job

GIB = 1024**3
LIMITS = PodResources(cpu=12.0, memory=24 * GIB)
TEMPO = BrainTiming(
    settle_time=10,
    observation_window=10,
    hang_timeout=60,
    growth_timeout=20,
    pending_timeout=60,
    growth_backoff=100,
    pod_appear_timeout=10,
    ps_handover_timeout=20,
)
MISHAPS = ("killed", "failed", "oom", "vanished", "silent", "no room", "room", "new master", "nothing")

specs = st.builds(
    MasterRoleSpec,
    type=st.just("worker"),
    replicas=st.sampled_from([None, None, 1, 4]),
    max_size=st.sampled_from([None, 6]),
    may_scale=st.booleans(),
    restart_limit=st.integers(0, 3),
    resources=st.sampled_from([PodResources(), PodResources(cpu=1.0, memory=GIB)]),
)
strategies = st.sampled_from(["AllreduceStrategy", "ParameterServerStrategy"])
mishaps = st.lists(st.tuples(st.sampled_from(MISHAPS), st.integers(0, 7)), max_size=8)


def befall(world: World, mishap: str, number: int) -> None:
    running = [node for node in world.live() if node.status is MemberStatus.RUNNING]
    keys = [node.key for node in running[: number + 1]]
    match mishap:
        case "killed":
            world.stop(keys, exit_code=137)
        case "failed":
            world.stop(keys, exit_code=number)
        case "oom":
            world.stop(keys, exit_code=137, reason="OOMKilled")
        case "vanished":
            for key in keys:
                del world.nodes[key]
        case "silent":
            world.silent.update(keys)
        case "no room":
            world.room = number
        case "room":
            world.room = 1000
        case "new master":
            world.memory = load_brain_state(world.memory.dump_state())


def check(world: World) -> None:
    for step in world.steps:
        assert step.reason
        assert step.create_pods or step.remove_members or step.sizing_by_type or step.migrate_pods
        pods = (*step.create_pods, *step.migrate_pods)
        assert len({(pod.key.type, pod.rank) for pod in pods}) == len(pods)
    live = world.live()
    assert len({node.rank for node in live}) == len(live)
    role = world.facts.roles["worker"]
    assert len(live) <= (role.max_size if role.max_size is not None else role.replicas or 64)
    assert sum(node.resources.cpu or 0 for node in live) <= (LIMITS.cpu or 0) + 1e-6
    assert sum(node.resources.memory or 0 for node in live) <= (LIMITS.memory or 0)
    if not role.may_scale:
        assert all(node.resources == role.resources for node in live)


@given(specs, strategies, mishaps)
def test_bounds_are_kept_and_everything_comes_to_rest(
    role: MasterRoleSpec, strategy: str, events: list[tuple[str, int]]
) -> None:
    world = World(
        facts=job(role, strategy=strategy, limits=LIMITS),
        speed=lambda size: 100 * size / (1 + 0.3 * size),
        tempo=TEMPO,
        pace=5,
    )
    for mishap, number in events:
        world.run(5)
        befall(world, mishap, number)
        check(world)
    world.run(3)
    check(world)
    world.room = 1000
    world.silent.clear()
    world.run(150)
    check(world)
    before = len(world.steps)
    world.run(30)
    assert len(world.steps) == before
    assert world.end is not None or all(node.status is MemberStatus.RUNNING for node in world.live())
