from __future__ import annotations

from dataclasses import replace

import pytest

from pliant.master.brain.state import BrainState, load_brain_state
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import MasterRoleSpec, MemberKey, MemberStatus, PodResources, SizingStage
from tests.master.brain.world import World, job

GIB = 1024**3
PS = "ParameterServerStrategy"


def steady(number: int = 4, strategy: str = "AllreduceStrategy", **role: object) -> World:
    """A job of a fixed number of workers that has begun."""
    spec = MasterRoleSpec(type="worker", replicas=number, **role)  # type: ignore[arg-type]
    return World(facts=job(spec, strategy=strategy)).run(30)


def test_thirty_lost_workers_come_back_by_one_plan_at_once() -> None:
    world = steady(32)
    lost = [node.key for node in world.live()[2:]]
    for key in lost:
        del world.nodes[key]
    world.decide()
    (step,) = world.steps[1:]
    assert len(step.create_pods) == 30
    assert sorted(pod.rank for pod in step.create_pods) == list(range(2, 32))
    assert min(pod.key.id for pod in step.create_pods) == 32
    assert len(world.run(60).steps) == 2


@pytest.mark.parametrize("code", [137, 143])
def test_who_was_killed_is_made_anew_without_end_and_not_in_haste(code: int) -> None:
    world = steady(restart_limit=0)
    for _ in range(5):
        world.stop([world.live()[1].key], exit_code=code)
        world.run(40, until=lambda: len(world.live()) == 4)
        world.run(5)
        assert len(world.live()) == 4
    times = world.memory.early_exit_counts["worker/1"]
    assert times >= 4
    assert world.end is None


def test_a_worker_that_ran_out_of_memory_gets_twice_as_much_and_so_do_later_ones() -> None:
    world = World().run(30)
    world.stop([MemberKey("worker", 0)], exit_code=137, reason="OOMKilled")
    world.run(1)
    (pod,) = world.steps[-1].create_pods
    assert pod.resources.memory == 2 * GIB
    assert (pod.rank, pod.key.id) == (0, 1)
    assert "from 1 GiB to 2 GiB" in world.steps[-1].reason
    world.run(120)
    assert (world.steps[-1].sizing_by_type["worker"].resources.memory or 0) > GIB


def test_who_ran_out_of_memory_gets_more_than_the_limit_was() -> None:
    world = World().run(30)
    key = MemberKey("worker", 0)
    world.nodes[key] = replace(world.nodes[key], memory_limit=3 * GIB)
    world.stop([key], exit_code=137, reason="OOMKilled")
    world.run(1)
    (pod,) = world.steps[-1].create_pods
    assert pod.resources.memory == 6 * GIB


def test_memory_grows_by_eight_gib_a_step_and_ends_where_the_limits_are() -> None:
    limits = PodResources(cpu=10, memory=40 * GIB)
    world = World(facts=job(MasterRoleSpec(type="worker", resources=PodResources(memory=10 * GIB)), limits=limits)).run(
        10
    )
    given = []
    for _ in range(10):
        if world.end is not None:
            break
        world.stop([node.key for node in world.live()], exit_code=247)
        world.run(10)
        given.append((world.steps[-1].create_pods or world.steps[-2].create_pods)[0].resources.memory)
    assert [(memory or 0) // GIB for memory in given[:4]] == [18, 26, 34, 40]
    assert world.end is not None
    assert not world.end.has_succeeded
    assert "the limits allow no more" in world.end.reason


def test_several_that_run_out_of_memory_share_what_the_limits_leave() -> None:
    limits = PodResources(cpu=10, memory=10 * GIB)
    spec = MasterRoleSpec(type="worker", replicas=4, resources=PodResources(cpu=1, memory=2 * GIB))
    world = World(facts=job(spec, limits=limits)).run(10)
    world.stop([node.key for node in world.live()[:3]], exit_code=137, reason="OOMKilled")
    world.run(5)
    assert sum(node.resources.memory or 0 for node in world.live()) <= 10 * GIB
    assert world.live()[0].resources.memory == 4 * GIB


def test_memory_that_may_not_be_changed_costs_restarts_instead() -> None:
    world = steady(1, may_scale=False, resources=PodResources(cpu=1, memory=GIB), restart_limit=1)
    world.stop([MemberKey("worker", 0)], reason="OOMKilled", exit_code=137)
    world.run(10)
    assert world.steps[-1].create_pods[0].resources.memory == GIB
    world.stop([MemberKey("worker", 1)], reason="OOMKilled", exit_code=137)
    world.run(10)
    assert world.end is not None
    assert world.end.reason == "worker-1 ran out of memory after 1 restart"


def test_failures_of_allreduce_workers_are_tried_again_as_often_as_allowed() -> None:
    world = steady(restart_limit=2)
    for _ in range(3):
        world.stop([world.live()[0].key], exit_code=1)
        world.run(10)
    assert world.end is not None
    assert world.end.reason == "worker-5 failed with exit code 1 after 2 restarts"


def test_the_word_of_a_served_worker_is_final_unless_it_is_to_start_always() -> None:
    world = steady(strategy=PS)
    world.stop([MemberKey("worker", 0)], exit_code=1)
    world.run(2)
    assert world.end is not None
    world = steady(strategy=PS, restarts_always=True)
    world.stop([MemberKey("worker", 0)], exit_code=1)
    world.run(2)
    assert world.steps[-1].create_pods


def test_others_go_on_without_a_worker_that_is_beyond_recovery() -> None:
    world = steady(strategy=PS)
    world.stop([MemberKey("worker", 2)], exit_code=1)
    assert len(world.run(30).steps) == 1
    world.finish()
    world.run(2)
    assert world.end is not None
    assert world.end.has_succeeded


def test_nobody_is_made_anew_for_one_who_fell_at_a_place_that_was_given_up_since() -> None:
    world = World(speed=lambda size: 10.0 * min(size, 2)).run(130)
    assert len(world.live()) == 4
    world.stop([world.live()[3].key], exit_code=137)
    world.run(300)
    assert len(world.live()) == 2
    assert len([step for step in world.steps if step.create_pods]) == 1


def test_a_place_that_was_given_up_may_be_tried_by_others_later_on() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker"), strategy=PS), speed=lambda size: 10.0 * min(size, 8)).run(
        900
    )
    assert len(world.live()) == 8
    world.stop([node.key for node in world.live()[1:3]], exit_code=1)
    world.run(1000)
    assert [node.rank for node in world.live()] == [0, 3, 4, 5, 6, 7]
    world.run(1000)
    assert [node.rank for node in world.live()] == list(range(8))
    before = len(world.steps)
    assert len(world.run(300).steps) == before


def test_a_job_is_over_when_all_have_finished() -> None:
    world = steady(2)
    world.finish()
    world.run(1)
    assert world.end is not None
    assert world.end.has_succeeded
    assert world.end.reason == "worker-0, worker-1 finished"


def test_a_job_is_over_when_its_work_is_and_its_first_worker_has_finished() -> None:
    world = steady(3)
    world.is_work_done = True
    world.stop([MemberKey("worker", 2)], exit_code=137)
    world.run(5)
    assert (world.end, len(world.steps)) == (None, 1)
    world.stop([MemberKey("worker", 0)], status=MemberStatus.SUCCEEDED, exit_code=0)
    world.run(1)
    assert world.end is not None
    assert world.end.has_succeeded


def test_a_new_master_takes_over_whoever_is_there() -> None:
    world = steady(4)
    for memory in (load_brain_state(world.memory.dump_state()), BrainState()):
        world.memory = memory
        world.run(60)
        assert len(world.steps) == 1
        assert world.memory.stage is not SizingStage.CREATE


def test_a_new_master_gives_missing_members_time_to_be_seen_before_it_makes_them_anew() -> None:
    world = steady(4)
    world.memory = load_brain_state(world.memory.dump_state())
    del world.nodes[MemberKey("worker", 3)]
    world.run(25)
    assert len(world.steps) == 1
    world.run(10)
    assert [pod.rank for pod in world.steps[-1].create_pods] == [3]


def test_a_suspended_job_is_left_alone_and_goes_on_with_as_many_as_it_had() -> None:
    world = World(speed=lambda size: 10.0 * min(size, 4)).run(700)
    assert len(world.live()) == 4
    before, shape = len(world.steps), world.memory.resources_by_type["worker"]
    world.facts = replace(world.facts, is_suspended=True)
    world.nodes.clear()
    world.run(100)
    assert len(world.steps) == before
    world.facts = replace(world.facts, is_suspended=False)
    world.run(10)
    assert len(world.live()) == 4
    assert world.steps[-1].reason.startswith("job resumed: 4 workers")
    assert world.live()[0].resources == shape


def test_what_somebody_gave_a_member_by_hand_outlives_a_rest() -> None:
    world = steady(1)
    world.nodes[MemberKey("worker", 5)] = replace(
        world.nodes.pop(MemberKey("worker", 0)), key=MemberKey("worker", 5), resources=PodResources(cpu=3, memory=GIB)
    )
    world.run(5)
    world.facts = replace(world.facts, is_suspended=True)
    world.nodes.clear()
    world.run(5)
    world.facts = replace(world.facts, is_suspended=False)
    world.run(5)
    assert world.steps[-1].sizing_by_type["worker"].resources.cpu == 3


def test_a_silent_member_is_replaced_and_one_that_never_spoke_is_not() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker", replicas=3)), tempo=BrainTiming(hang_timeout=60))
    world.silent.add(MemberKey("worker", 2))
    world.run(30)
    world.silent.add(MemberKey("worker", 1))
    world.run(200)
    (step,) = world.steps[1:]
    assert step.remove_members == (MemberKey("worker", 1),)
    assert [(pod.key.id, pod.rank) for pod in step.create_pods] == [(3, 1)]


def test_when_all_fall_silent_all_are_replaced_by_one_plan() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker", replicas=3)), tempo=BrainTiming(hang_timeout=60)).run(30)
    world.silent.update(node.key for node in world.live())
    world.run(65)
    assert len(world.steps) == 2
    assert len(world.steps[1].create_pods) == 3


def test_a_slow_worker_is_replaced_a_few_times_an_hour() -> None:
    world = World(
        facts=job(MasterRoleSpec(type="worker", replicas=4)), tempo=BrainTiming(settle_time=5, observation_window=20)
    )
    world.slow = {MemberKey("worker", number): 1.0 for number in (3, 4, 5, 6, 7)}
    world.run(900)
    moved = [step for step in world.steps if step.migrate_pods]
    assert len(moved) == 3
    assert "worker-3 is a straggler: 1 samples/s, the median is 10" in moved[0].reason


def test_guesses_that_no_machine_has_room_for_make_way_for_what_was_seen() -> None:
    world = World(
        facts=job(MasterRoleSpec(type="worker", replicas=3)), cores=2.0, used=PodResources(cpu=0.2, memory=GIB // 4)
    )
    world.run(30)
    assert [node.status for node in world.live()] == [MemberStatus.RUNNING, MemberStatus.RUNNING, MemberStatus.PENDING]
    world.cores = 2.3
    world.run(60)
    assert [node.resources.cpu for node in world.live()] == [1.0, 1.0, 0.3]
    assert all(node.status is MemberStatus.RUNNING for node in world.live())
    assert len(world.steps) == 2


def test_members_that_wait_for_too_long_are_made_smaller_down_to_the_least() -> None:
    world = World(room=0, tempo=BrainTiming(growth_timeout=60)).run(600)
    shapes = [step.create_pods[0].resources for step in world.steps[1:]]
    assert [shape.cpu for shape in shapes[:3]] == [0.5, 0.3, 0.2]
    assert shapes[-1].memory == 128 * 1024**2
    assert len(world.live()) == 1


def test_what_the_author_gave_is_not_made_smaller() -> None:
    spec = MasterRoleSpec(type="worker", resources=PodResources(cpu=4, memory=GIB))
    assert len(World(facts=job(spec), room=0).run(2000).steps) == 1


def test_whoever_a_person_sends_away_is_not_made_anew() -> None:
    world = steady(4)
    world.facts = job(MasterRoleSpec(type="worker", replicas=2, user_requested_size=2))
    del world.nodes[MemberKey("worker", 3)]
    world.stop([MemberKey("worker", 2)], status=MemberStatus.LOST)
    world.run(60)
    assert len(world.steps) == 1
    del world.nodes[MemberKey("worker", 1)]
    world.run(60)
    assert [pod.rank for pod in world.steps[-1].create_pods] == [1]


def test_a_number_set_by_hand_ends_the_search_for_a_better_one() -> None:
    world = World(facts=job(MasterRoleSpec(type="worker"))).run(20)
    world.facts = job(MasterRoleSpec(type="worker", user_requested_size=1))
    assert len(world.run(300).steps) == 1


def test_who_has_finished_counts_though_the_pod_is_gone() -> None:
    world = steady(2)
    world.stop([MemberKey("worker", 0)], status=MemberStatus.SUCCEEDED, exit_code=0)
    world.run(2)
    del world.nodes[MemberKey("worker", 0)]
    world.run(60)
    assert len(world.steps) == 1
    world.stop([MemberKey("worker", 1)], status=MemberStatus.SUCCEEDED, exit_code=0)
    assert world.run(2).end is not None


def test_a_hot_parameter_server_hands_over_to_a_bigger_one() -> None:
    specs = (MasterRoleSpec(type="worker", replicas=2), MasterRoleSpec(type="ps"))
    world = World(facts=job(*specs, strategy=PS), used=PodResources(cpu=0.95, memory=200 * 1024**2))
    world.run(300, until=lambda: len(world.live("ps")) == 2).run(10)
    made = next(step for step in world.steps if step.create_pods)
    assert (made.create_pods[0].key, made.create_pods[0].rank) == (MemberKey("ps", 1), 0)
    assert made.create_pods[0].resources.cpu == 2.0
    assert world.memory.ps_version == 2
    assert len(world.live("ps")) == 2  # until everybody has turned to the new one
    world.ps_version = 2
    world.run(2)
    assert [node.key.id for node in world.live("ps")] == [1]
    assert world.memory.ps_hosts == ("10.0.0.1:2222",)


def test_a_lost_parameter_server_comes_back_and_everybody_is_told_where() -> None:
    specs = (MasterRoleSpec(type="worker", replicas=2), MasterRoleSpec(type="ps", replicas=2))
    world = World(facts=job(*specs, strategy=PS)).run(20)
    assert (world.memory.ps_version, world.memory.ps_hosts) == (1, ("10.0.0.0:2222", "10.0.0.1:2222"))
    world.stop([MemberKey("ps", 0)], status=MemberStatus.LOST)
    world.run(10)
    assert [(pod.key, pod.rank) for pod in world.steps[-1].create_pods] == [(MemberKey("ps", 2), 0)]
    assert (world.memory.ps_version, world.memory.ps_hosts) == (2, ("10.0.0.2:2222", "10.0.0.1:2222"))
    assert len(world.run(60).steps) == 2


def test_a_server_that_stays_hot_grows_again_after_it_has_taken_over() -> None:
    specs = (MasterRoleSpec(type="worker", replicas=1), MasterRoleSpec(type="ps"))
    tempo = BrainTiming(settle_time=2, observation_window=4, ps_change_interval=5, ps_handover_timeout=10)
    world = World(facts=job(*specs, strategy=PS), used=PodResources(cpu=3.8, memory=200 * 1024**2), tempo=tempo)
    world.run(200)
    reasons = [step.reason.split(":")[0] for step in world.steps[1:]]
    assert reasons[::2] == [f"replacing ps-{number} with {2 ** (number + 1)} cores and 320 MiB" for number in range(3)]
    assert reasons[1::2] == [f"ps-{number} handed over to ps-{number + 1}" for number in range(3)]


def test_who_does_not_turn_to_the_new_servers_is_not_waited_for_for_ever() -> None:
    specs = (MasterRoleSpec(type="worker", replicas=2), MasterRoleSpec(type="ps"))
    world = World(facts=job(*specs, strategy=PS), used=PodResources(cpu=0.95, memory=200 * 1024**2)).run(250)
    world.run(150)
    assert [node.key.id for node in world.live("ps")] == [1]


def test_what_is_saved_comes_back() -> None:
    world = steady(3)
    world.stop([MemberKey("worker", 1)], exit_code=1)
    world.run(5)
    after = load_brain_state(world.memory.dump_state())
    assert replace(after, observations=world.memory.observations) == world.memory
    assert load_brain_state({"stage": 3}) == BrainState()
