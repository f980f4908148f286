from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.frameworks import FRAMEWORKS, resolve_framework
from pliant.frameworks.generic import Generic, variable_prefix
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.model.framework import Rank
from tests.frontends.raw import raw_group, raw_job


def listening(*ports: int) -> dict[str, object]:
    return {"name": "aitj-main", "ports": [{"name": f"aitj-{port}", "containerPort": port} for port in ports]}


JOB = AITrainingJobFrontend().parse(
    raw_job({"PServer": raw_group(listening(4444, 5555), replicas=2), "trainer": raw_group(replicas=1)})
)


def test_a_member_learns_who_it_is() -> None:
    assert Generic().environment(JOB, Rank(group=JOB.groups[0], index=1, attempt=3), "aitj-main") == {
        "TRAININGJOB_NAME": "demo",
        "TRAININGJOB_NAMESPACE": "team",
        "TRAININGJOB_REPLICA_NAME": "pserver",
        "TRAININGJOB_REPLICA_TYPE": "pserver",
        "TRAININGJOB_REPLICA_INDEX": "1",
        "TRAININGJOB_REPLICA_RESTARTCOUNT": "3",
        "TRAININGJOB_SERVICE": "demo-pserver-1.team",
        "TRAININGJOB_PORTS": "4444,5555",
    }


def test_all_members_learn_where_everybody_is() -> None:
    assert Generic().shared_environment(JOB) == {
        "PSERVER_INSTANCES": "demo-pserver-0.team,demo-pserver-1.team",
        "PSERVER_INSTANCES_NUM": "2",
        "PSERVER_PORTS": "4444,5555",
        "PSERVER_PORTS_NUM": "2",
        "PSERVER_HOSTS": "demo-pserver-0.team:4444,demo-pserver-0.team:5555,"
        "demo-pserver-1.team:4444,demo-pserver-1.team:5555",
        "PSERVER_HOSTS_NUM": "4",
        "TRAINER_INSTANCES": "demo-trainer-0.team",
        "TRAINER_INSTANCES_NUM": "1",
        "TRAINER_PORTS": "",
        "TRAINER_PORTS_NUM": "0",
        "TRAINER_HOSTS": "",
        "TRAINER_HOSTS_NUM": "0",
    }


@pytest.mark.parametrize(
    ("group", "prefix"),
    [("worker", "WORKER"), ("ps-gpu", "PS_GPU"), ("a/b", "A_B"), ("2nd", "_2ND"), ("Ünique", "_NIQUE")],
)
def test_groups_become_names_of_variables(group: str, prefix: str) -> None:
    assert variable_prefix(group) == prefix


@given(st.text(min_size=1))
def test_any_group_gives_a_valid_variable(group: str) -> None:
    assert re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable_prefix(group))


@pytest.mark.parametrize("names", [("generic",), ("generic", "no such framework"), ("generic", "")])
def test_a_framework_we_do_not_know_adds_nothing_to_the_generic_contract(names: tuple[str, ...]) -> None:
    assert resolve_framework(replace(JOB, frameworks=names)) is FRAMEWORKS["generic"]


def test_what_both_an_aitrainingjob_and_its_framework_define_is_that_of_the_job() -> None:
    template = {"spec": {"containers": [{"name": "aitj-main", "ports": [{"name": "aitj-a", "containerPort": 80}]}]}}
    raw = raw_job({"trainer": {"replicas": 2, "template": template}}, frameworkType="paddlepaddle")
    job = AITrainingJobFrontend().parse(raw)
    assert resolve_framework(job).shared_environment(job)["TRAINER_PORTS_NUM"] == "1"
