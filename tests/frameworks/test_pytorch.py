from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pliant.engine.plans.membership import job_in_effect
from pliant.frameworks.pytorch import PyTorch
from pliant.frontends.kubeflow.pytorch import PyTorchJobFrontend
from pliant.model.framework import Rank
from pliant.model.job import Job
from pliant.model.state import EngineState, GroupState, JobPhase
from tests.builders import NOON

TEMPLATE = {"spec": {"containers": [{"name": "pytorch", "image": "torch", "command": ["true"]}]}}


def torch_job(elastic: dict[str, Any] | None = None, /, **sizes: int) -> Job:
    groups = {name: {"replicas": size, "template": TEMPLATE} for name, size in sizes.items()}
    spec = {"pytorchReplicaSpecs": groups, **({"elasticPolicy": elastic} if elastic is not None else {})}
    return PyTorchJobFrontend().parse({"metadata": {"name": "bert", "namespace": "team", "uid": "u1"}, "spec": spec})


def told(job: Job, group: str, index: int) -> dict[str, str]:
    found = job.group(group)
    assert found is not None
    rank = Rank(group=found, index=index, attempt=0)
    return {**PyTorch().shared_environment(job), **PyTorch().environment(job, rank, "pytorch")}


def test_the_master_is_rank_0_and_workers_follow() -> None:
    job = torch_job(Master=1, Worker=2)
    assert told(job, "Worker", 1) == {
        "PYTHONUNBUFFERED": "1",
        "PET_NPROC_PER_NODE": "auto",
        "MASTER_ADDR": "bert-master-0",
        "MASTER_PORT": "23456",
        "WORLD_SIZE": "3",
        "PET_MASTER_ADDR": "bert-master-0",
        "PET_MASTER_PORT": "23456",
        "PET_NNODES": "3",
        "RANK": "2",
        "PET_NODE_RANK": "2",
    }
    assert told(job, "Master", 0)["RANK"] == "0"


def test_without_a_master_the_first_worker_leads() -> None:
    found = told(torch_job(Worker=2), "Worker", 0)
    assert (found["MASTER_ADDR"], found["RANK"], found["WORLD_SIZE"]) == ("bert-worker-0", "0", "2")


@pytest.mark.parametrize(("processes", "world"), [("4", "8"), ("gpu", "2"), (None, "2")])
def test_the_world_size_counts_the_processes_of_every_pod(processes: str | None, world: str) -> None:
    job = replace(torch_job(Worker=2), framework_options={"nproc_per_node": processes})
    found = told(job, "Worker", 0)
    assert (found["WORLD_SIZE"], found["PET_NNODES"]) == (world, "2")


def test_an_elastic_world_has_bounds_and_a_meeting_place_and_no_ranks() -> None:
    found = told(torch_job({"minReplicas": 1, "maxReplicas": 4, "maxRestarts": 3}, Worker=2), "Worker", 1)
    assert found["PET_NNODES"] == "1:4"
    assert found["PET_RDZV_ENDPOINT"] == "bert-worker-0:23456"
    assert found["PET_RDZV_BACKEND"] == "c10d"
    assert found["PET_MAX_RESTARTS"] == "3"
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "PET_NODE_RANK"} & found.keys()


@pytest.mark.parametrize(("policy", "bounds"), [({"minReplicas": 2}, "2:3"), ({"maxReplicas": 5}, "1:5"), ({}, "1:3")])
def test_one_bound_is_enough(policy: dict[str, Any], bounds: str) -> None:
    assert told(torch_job(policy, Worker=3), "Worker", 0)["PET_NNODES"] == bounds


def test_flags_are_numbers() -> None:
    assert told(torch_job({"standalone": True}, Worker=1), "Worker", 0)["PET_STANDALONE"] == "1"
    assert "PET_STANDALONE" not in told(torch_job({}, Worker=1), "Worker", 0)


def test_those_who_are_restarted_together_meet_under_a_new_id_and_one_who_comes_back_finds_the_old() -> None:
    job = torch_job({}, Worker=2)
    first = told(job, "Worker", 0)["PET_RDZV_ID"]

    def remembering(memory: GroupState) -> Job:
        return job_in_effect(job, EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups={"Worker": memory}))

    assert told(remembering(GroupState(attempt=1, index_min_attempts={1: 1})), "Worker", 1)["PET_RDZV_ID"] == first
    assert told(remembering(GroupState(attempt=1, job_min_attempt=1)), "Worker", 1)["PET_RDZV_ID"] != first
    assert told(remembering(GroupState(attempt=1, group_min_attempt=1)), "Worker", 1)["PET_RDZV_ID"] != first
    assert told(replace(job, owner=replace(job.owner, uid="u2")), "Worker", 0)["PET_RDZV_ID"] != first
