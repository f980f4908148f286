from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pliant.engine.plans.membership import job_in_effect
from pliant.model.job import Job
from pliant.model.state import EngineState, GroupMember, GroupState, JobPhase
from tests.builders import NOON
from tests.frameworks.contracts import told as contract_told
from tests.frameworks.contracts import written_for
from tests.frontends.elasticjob import parsed, replicas, role, told

PS = "ParameterServerStrategy"


def served(hosts: tuple[str, ...] = (), **groups: dict[int, GroupMember]) -> Job:
    """A job with parameter servers and with these on its lists."""
    job = parsed(distributionStrategy=PS, replicaSpecs=replicas(worker=role(), ps=role()))
    memories = {name: GroupState(members=members) for name, members in groups.items()}
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, groups=memories, server_addresses=hosts)
    return job_in_effect(job, state)


def config(job: Job, group: str, index: int = 0, member: GroupMember | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(job, group, index, member)["TF_CONFIG"])
    return found


def test_a_member_learns_who_it_is_and_where_its_master_is() -> None:
    job = parsed(replicaSpecs=replicas(worker=role(4)))
    assert told(job, "worker", 7, GroupMember(rank=2, relaunches=1)) == {
        "ELASTIC_JOB_NAME": "demo",
        "JOB_UID": "job-uid",
        "DLROVER_MASTER_ADDR": "elasticjob-demo-dlrover-master:50001",
        "DLROVER_MASTER_SERVICE_TYPE": "grpc",
        "NODE_TYPE": "worker",
        "NODE_ID": "7",
        "NODE_RANK": "2",
        "NODE_NUM": "4",
        "WORKER_TYPE": "worker",
        "WORKER_ID": "7",
        "WORKER_RANK": "2",
        "WORKER_NUM": "4",
        "GRPC_ENABLE_FORK_SUPPORT": "false",
        "MONITOR_ENABLED": "true",
        "WORLD_SIZE": "4",
        "RANK": "2",
        "RDZV_ENDPOINT": "demo-edljob-worker-0",
    }


def test_a_master_is_told_nothing_of_the_kind() -> None:
    assert told(parsed(), "dlrover-master") == {}


def test_how_to_talk_to_the_master_and_in_which_mode_is_for_annotations_to_say() -> None:
    found = told(parsed(annotations={"service_type": "http", "training_elastic_mode": "ucp"}), "worker")
    assert found["DLROVER_MASTER_SERVICE_TYPE"] == "http"
    assert found["DLROVER_TRAINING_ELASTIC_MODE"] == "ucp"


def test_with_parameter_servers_everybody_is_told_where_all_are() -> None:
    servers = {0: GroupMember(rank=0), 3: GroupMember(rank=1), 2: GroupMember(rank=2, service="other", port=2323)}
    job = served(ps=servers, worker={5: GroupMember(rank=1), 0: GroupMember(rank=0)}, chief={0: GroupMember(rank=0)})
    assert config(job, "worker", 5, GroupMember(rank=1)) == {
        "cluster": {
            "worker": ["demo-edljob-worker-0.team.svc:3333", "demo-edljob-worker-1.demo.team.svc:3333"],
            "ps": ["demo-edljob-ps-0.team.svc:2222", "demo-edljob-ps-1.team.svc:2222", "other.team.svc:2323"],
            "chief": ["demo-edljob-chief-0.team.svc:3333"],
        },
        "task": {"type": "worker", "index": 1},
    }


def test_of_two_at_one_rank_the_later_one_is_told() -> None:
    job = served(ps={0: GroupMember(rank=0), 4: GroupMember(rank=0, service="heir", port=1)})
    assert config(job, "worker")["cluster"]["ps"] == ["heir.team.svc:1"]


def test_of_very_many_workers_only_those_are_told_whom_they_talk_to() -> None:
    job = served(ps={0: GroupMember(rank=0)}, worker={rank: GroupMember(rank=rank) for rank in range(4000)})
    assert config(job, "worker") == {
        "cluster": {"ps": ["demo-edljob-ps-0.team.svc:2222"]},
        "task": {"type": "worker", "index": 0},
    }


def test_servers_that_a_plan_lists_are_those_that_count() -> None:
    job = served(hosts=("b:1", "a:1"), ps={0: GroupMember(rank=0)})
    assert config(job, "ps")["cluster"] == {"ps": ["b:1", "a:1"]}


def test_a_chief_that_nobody_asked_for_is_one_of_the_workers() -> None:
    lent = parsed(distributionStrategy=PS, replicaSpecs=replicas(worker=role(2), ps=role(1)))
    own = parsed(distributionStrategy=PS, replicaSpecs=replicas(worker=role(2), ps=role(1), chief=role(1)))
    with_chief = [replace(group, size=1) if group.name == "chief" else group for group in lent.groups]
    assert told(replace(lent, groups=tuple(with_chief)), "worker")["NODE_NUM"] == "3"
    assert told(own, "worker")["NODE_NUM"] == "2"


def test_members_of_a_strategy_of_somebody_elses_find_at_least_their_master() -> None:
    job = replace(parsed(), framework_options={"strategy": "CustomStrategy"})
    assert not {"TF_CONFIG", "WORLD_SIZE", "RANK", "RDZV_ENDPOINT"} & told(job, "worker").keys()
    assert "DLROVER_MASTER_ADDR" in told(job, "worker")


def test_without_a_master_a_member_still_learns_who_it_is() -> None:
    found = contract_told(written_for("dlrover", worker=2), "worker", 1)
    assert (found["NODE_RANK"], found["NODE_NUM"]) == ("1", "2")
    assert "DLROVER_MASTER_ADDR" not in found
