"""ElasticJobs as they are read, in the hands of the engine: masters come and go, members stay, bounds hold."""

from __future__ import annotations

from typing import Any

import pytest

from pliant.engine.plans.master_pods import apply_master_defaults
from pliant.model.job import Job
from pliant.model.operator_config import OperatorConfig
from pliant.model.scale_plans import PlanPhase
from pliant.model.state import JobPhase
from tests.engine.mastered import MASTER_POD, elastic_world, names, write
from tests.engine.world import World
from tests.frontends.elasticjob import group_of, master, parsed, replicas, role


def lived(restarts: int | None = None, **worker: Any) -> World:
    """A job with two workers under way, whose author says how often its master may be replaced."""
    world = elastic_world(parsed(replicaSpecs=replicas(worker=role(2, **worker), dlrover_master=master(restarts))))
    write(world, "first", worker=2)
    world.settle()
    assert names(world, "worker") == ["demo-edljob-worker-0", "demo-edljob-worker-1"]
    return world


def uids(world: World) -> set[str]:
    """The workers that are there, each life of a pod with a name of its own."""
    return {pod.uid for pod in world.pods.values() if pod.group == "worker"}


def evict_master(world: World) -> None:
    world.evict(MASTER_POD)
    world.settle()


@pytest.mark.parametrize(("restarts", "borne"), [(None, 5), (0, 0), (1, 1)])
def test_an_evicted_master_is_replaced_as_often_as_its_author_says(restarts: int | None, borne: int) -> None:
    world = lived(restarts)
    workers = uids(world)
    for _ in range(borne):
        evict_master(world)
        assert world.memory.phase is JobPhase.RUNNING
        assert uids(world) == workers
    if restarts is not None:
        evict_master(world)
        assert world.memory.phase is JobPhase.FAILED
        assert not world.pods


@pytest.mark.parametrize(("code", "phase"), [(0, JobPhase.SUCCEED), (1, JobPhase.FAILED)])
def test_a_master_says_by_its_exit_code_how_the_job_ended(code: int, phase: JobPhase) -> None:
    world = lived()
    world.ending = lambda pod: code if pod.name == MASTER_POD else -1
    world.settle()
    assert world.memory.phase is phase
    assert not world.pods


def test_a_master_that_crashes_is_replaced_while_its_workers_work_on() -> None:
    world = lived()
    workers = uids(world)
    world.ending = lambda pod: 137 if pod.name == MASTER_POD and pod.attempt == 0 else -1
    world.settle()
    assert world.memory.phase is JobPhase.RUNNING
    assert world.memory.restart_count == 1
    assert uids(world) == workers


@pytest.mark.parametrize(("asked", "got"), [(9, 4), (1, 2), (3, 3)])
def test_bounds_hold_for_edits(asked: int, got: int) -> None:
    world = lived(minReplicas=2, maxReplicas=4)
    world.pass_time(world.rules.node_grace_period)
    world.resize("worker", spec=asked)
    world.settle()
    assert len(names(world, "worker")) == got


@pytest.mark.parametrize(("asked", "got"), [(9, 4), (1, 2)])
def test_bounds_hold_for_plans_of_masters(asked: int, got: int) -> None:
    world = lived(minReplicas=2, maxReplicas=4)
    world.pass_time(world.rules.node_grace_period)
    write(world, "second", worker=asked)
    world.settle()
    assert len(names(world, "worker")) == got


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (9, "spec.replicaResourceSpecs.worker.replicas: must be at most maxReplicas of the job (4), got 9"),
        (1, "spec.replicaResourceSpecs.worker.replicas: must be at least minReplicas of the job (2), got 1"),
    ],
)
def test_a_plan_by_hand_for_a_size_that_the_job_may_not_have_fails(asked: int, said: str) -> None:
    world = lived(minReplicas=2, maxReplicas=4)
    write(world, "second", worker=asked, is_manual=True)
    world.settle()
    assert (world.plans["second"].phase, world.plans["second"].status_message) == (PlanPhase.FAILED, said)
    assert len(names(world, "worker")) == 2


def first_container(job: Job) -> dict[str, Any]:
    rules = OperatorConfig(master_image="pliant:1", master_command=("pliant-master",))
    return dict(group_of(apply_master_defaults(job, rules), "dlrover-master").template["spec"]["containers"][0])


def test_our_master_starts_as_the_operator_does() -> None:
    found = first_container(parsed())
    assert (found["image"], found["command"]) == ("pliant:1", ["pliant-master"])
    assert found["args"][:2] == ["--namespace", "team"]


def test_a_command_without_an_image_runs_in_ours() -> None:
    found = first_container(parsed(replicaSpecs=replicas(worker=role(), dlrover_master=master(command=["mine"]))))
    assert (found["image"], found["command"]) == ("pliant:1", ["mine"])
    assert "args" not in found
