"""What holds for any job, any cluster, any order of events and any moment of being cut off.

Each property sends jobs through another kind of trouble; `laws.py` says what is held against every decision on the
way, and against the world once it has come to rest.
"""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from pliant.model.observed import PodPhase
from pliant.model.state import JobPhase
from tests.builders import NOON, StoredJob
from tests.engine.lives import (
    MISCHIEF,
    History,
    codes,
    codes_of_some_that_run_on,
    come_to_rest,
    histories,
    jobs,
    jobs_with_store,
    live,
    many,
    mend,
    restarting_jobs,
    world_of,
)
from tests.engine.rulings import actions_of, update_of
from tests.engine.world import World

LEAVING = ("scale", "suspend", "resume", "drain", "order", "node", "remove", "grace", "garble", "lose status")
any_jobs = st.one_of(jobs(), restarting_jobs())
obstacles = st.sets(st.integers(0, 4), max_size=3)


def has_ended(world: World) -> bool:
    """Whether a job whose members all end has ended too."""
    has_members = any(world.memory.group(group.name).applied_size for group in world.job.groups)
    return world.is_gone or world.memory.phase.is_final or not has_members


@many
@given(jobs(), codes, histories(longest=50))
def test_a_job_comes_to_its_end_though_cut_off_after_any_write(
    job: StoredJob, script: list[int], days: History
) -> None:
    assert has_ended(come_to_rest(live(world_of(job, script), days)))


@many
@given(restarting_jobs(), codes_of_some_that_run_on, histories("remove", longest=50))
def test_restarts_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(jobs(), codes, histories("node", "device", "evict", "remove", "wait long"))
def test_nodes_that_fail_and_recover_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    world = come_to_rest(live(world_of(job, script), days))
    assert has_ended(come_to_rest(mend(world)))


@many
@given(st.one_of(jobs(), restarting_jobs()), codes_of_some_that_run_on, histories("scale", "edit", "bound", "remove"))
def test_resizes_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(any_jobs, codes_of_some_that_run_on, histories(*LEAVING))
def test_departures_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(jobs_with_store(), codes_of_some_that_run_on, histories(*LEAVING))
def test_departures_beside_a_store_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(any_jobs, codes_of_some_that_run_on, histories("wish", "wish", "silence", "scale", "edit", "way", "remove"))
def test_sizes_that_the_autoscaler_wants_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(any_jobs, codes, histories("suspend", "resume", "resume", "edit", "wish", "node"))
def test_suspensions_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    world = come_to_rest(live(world_of(job, script), days))
    assert not world.job.is_suspended or world.memory.phase is JobPhase.SUSPENDED or world.memory.phase.is_final
    assert has_ended(come_to_rest(mend(world)))


@many
@given(jobs(has_limits=True), codes_of_some_that_run_on, histories("limit", "wait long", "suspend", "resume"))
def test_limits_in_time_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    world = come_to_rest(live(world_of(job, script), days))
    world.resume()
    come_to_rest(world)
    assert world.is_gone or world.memory.phase is JobPhase.SUSPENDED, "the limits end every job, and then it goes"


@many
@given(jobs(), codes, obstacles, st.booleans(), histories("wait long", "wait", "suspend", "resume"))
def test_containers_that_cannot_be_created_keep_the_laws(
    job: StoredJob, script: list[int], hindrances: set[int], is_strict: bool, days: History
) -> None:
    world = come_to_rest(live(world_of(job, script, hindrances, is_strict=is_strict), days))
    assert has_ended(come_to_rest(mend(world)))


@many
@given(jobs(has_limits=True), codes, histories("order", "clean", "wait long", "node", "suspend", "resume"))
def test_ends_of_every_kind_keep_the_laws(job: StoredJob, script: list[int], days: History) -> None:
    come_to_rest(live(world_of(job, script), days))


@many
@given(jobs(), codes_of_some_that_run_on, obstacles, st.booleans(), histories(*MISCHIEF))
def test_all_troubles_together_keep_the_laws(
    job: StoredJob, script: list[int], hindrances: set[int], is_strict: bool, days: History
) -> None:
    world = come_to_rest(live(world_of(job, script, hindrances, is_strict=is_strict), days))
    come_to_rest(mend(world))


@many
@given(jobs(), st.sets(st.integers(0, 2)))
def test_a_member_that_ended_is_not_made_again_though_its_pod_is_lost(job: StoredJob, ended: set[int]) -> None:
    world = World(job, lambda pod: 0 if pod.index in ended else -1)
    world.settle()
    for name in [name for name, pod in world.pods.items() if pod.phase is PodPhase.SUCCEEDED]:
        del world.pods[name]
    come_to_rest(world)


@many
@given(jobs(), histories("remove", "evict"))
def test_members_taken_away_come_back_and_cost_nothing(job: StoredJob, days: History) -> None:
    world = come_to_rest(live(World(job, lambda pod: -1), days))
    assert len(world.pods) == sum(group.size for group in job.groups)
    assert world.memory.outcome is None
    assert world.memory.restart_count == 0
    assert JobPhase.RESTARTING not in world.phases


@many
@given(jobs(), st.booleans())
def test_a_job_brought_up_costs_two_status_writes_and_then_none(job: StoredJob, is_suspended: bool) -> None:
    world = World(job, lambda pod: -1, now=NOON)
    if is_suspended:
        world.suspend()
    world.settle()
    assert world.status_writes <= 4
    world.pass_time(timedelta(hours=1))
    assert update_of(world.decide()) is None
    assert not actions_of(world.decide())
