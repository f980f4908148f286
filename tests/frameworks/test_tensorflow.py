from __future__ import annotations

import json
from typing import Any

import pytest

from pliant.errors import InvalidSpec
from pliant.model.job import Job, Port
from tests.builders import make_group
from tests.frameworks.contracts import told, written_for


def config(job: Job, group: str, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(told(job, group, index)["TF_CONFIG"])
    return found


def test_every_member_finds_the_cluster_and_its_own_task() -> None:
    job = written_for("tensorflow", PS=1, Worker=2)
    assert config(job, "Worker", 1) == {
        "cluster": {
            "ps": ["bert-ps-0.team.svc:2222"],
            "worker": ["bert-worker-0.team.svc:2222", "bert-worker-1.team.svc:2222"],
        },
        "task": {"type": "worker", "index": 1},
        "environment": "cloud",
    }
    assert config(job, "PS")["task"] == {"type": "ps", "index": 0}


@pytest.mark.parametrize("leader", ["chief", "master"])
def test_whoever_leads_keeps_the_name_of_the_role(leader: str) -> None:
    found = config(written_for("tensorflow", make_group(leader, 1), worker=1), leader)
    assert found["cluster"][leader] == [f"bert-{leader}-0.team.svc:2222"]
    assert found["task"] == {"type": leader, "index": 0}


def test_an_evaluator_sees_the_cluster_and_is_not_in_it() -> None:
    job = written_for("tensorflow", chief=1, worker=1, evaluator=1)
    assert config(job, "evaluator")["task"] == {"type": "evaluator", "index": 0}
    assert [*config(job, "evaluator")["cluster"]] == [*config(job, "worker")["cluster"]] == ["chief", "worker"]


def test_a_member_alone_trains_alone() -> None:
    assert told(written_for("tensorflow", worker=1), "worker") == {}


def test_a_named_port_is_used() -> None:
    workers = make_group("worker", 2, ports=(Port("metrics", 80), Port("tfjob-port", 5000)))
    assert config(written_for("tensorflow", workers), "worker")["cluster"]["worker"][0].endswith(":5000")


def test_groups_of_other_names_are_workers_numbered_through() -> None:
    job = written_for("tensorflow", worker=2, big=2)
    assert config(job, "big", 1)["task"] == {"type": "worker", "index": 3}
    assert config(job, "big", 1)["cluster"]["worker"][3] == "bert-big-1.team.svc:2222"


DYNAMIC = written_for("tensorflow", chief=1, ps=2, worker=3, evaluator=1, options={"dynamic_workers": True})
SERVERS = ["bert-ps-0.team.svc:2222", "bert-ps-1.team.svc:2222"]
CHIEF = ["bert-chief-0.team.svc:2222"]


def test_a_worker_that_may_go_is_known_to_nobody_else() -> None:
    assert config(DYNAMIC, "worker", 2) == {
        "cluster": {"chief": CHIEF, "ps": SERVERS, "worker": {"2": "bert-worker-2.team.svc:2222"}},
        "task": {"type": "worker", "index": 2},
        "environment": "cloud",
    }


def test_a_server_among_dynamic_workers_sees_itself_under_its_own_number() -> None:
    assert config(DYNAMIC, "ps", 1)["cluster"] == {"ps": {"1": "bert-ps-1.team.svc:2222"}}


@pytest.mark.parametrize("role", ["chief", "evaluator"])
def test_chief_and_evaluator_keep_their_place_among_dynamic_workers(role: str) -> None:
    assert config(DYNAMIC, role)["cluster"] == {"chief": CHIEF, "ps": SERVERS}
    assert config(DYNAMIC, role)["task"] == {"type": role, "index": 0}


def test_a_cluster_that_fits_no_variable_is_refused_by_name() -> None:
    with pytest.raises(InvalidSpec, match="fewer replicas"):
        told(written_for("tensorflow", worker=10_000), "worker")
