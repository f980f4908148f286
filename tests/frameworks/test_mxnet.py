from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.builders import make_group
from tests.frameworks.contracts import told, written_for

JOB = written_for("mxnet", Scheduler=1, Server=2, Worker=2)


def test_everybody_finds_the_scheduler_by_name() -> None:
    found = told(JOB, "Worker", 1)
    found.pop("MX_CONFIG")
    assert found == {
        "DMLC_PS_ROOT_URI": "bert-scheduler-0",
        "DMLC_PS_ROOT_PORT": "9091",
        "DMLC_NUM_SERVER": "2",
        "DMLC_NUM_WORKER": "2",
        "DMLC_USE_KUBERNETES": "1",
        "DMLC_ROLE": "worker",
        "DMLC_WORKER_ID": "1",
    }


@pytest.mark.parametrize(("group", "role"), [("Scheduler", "scheduler"), ("Server", "server")])
def test_those_who_serve_have_a_role_and_no_number(group: str, role: str) -> None:
    found = told(JOB, group)
    assert found["DMLC_ROLE"] == role
    assert "DMLC_WORKER_ID" not in found


def test_the_whole_cluster_is_told_too() -> None:
    found = json.loads(told(JOB, "Server", 1)["MX_CONFIG"])
    assert found["task"] == {"type": "server", "index": 1}
    assert found["cluster"]["scheduler"] == [{"url": "bert-scheduler-0", "port": 9091}]
    assert [member["url"] for member in found["cluster"]["worker"]] == ["bert-worker-0", "bert-worker-1"]


def test_tuners_are_told_of_the_cluster_and_of_the_server_meant_and_take_no_part_in_training() -> None:
    template = {"metadata": {"annotations": {"tuner-server-key": "2080ti"}}, "spec": {"containers": []}}
    server = replace(make_group("TunerServer", 1), template=template)
    found = told(written_for("mxnet", server, TunerTracker=1, Tuner=1), "Tuner")
    config = json.loads(found.pop("MX_CONFIG"))
    assert found == {}
    assert config["task"] == {"type": "tuner", "index": 0}
    assert config["labels"]["tunerserver"] == "2080ti"


def test_a_cluster_that_fits_no_variable_is_left_out() -> None:
    found = told(written_for("mxnet", scheduler=1, server=1, worker=5000), "worker")
    assert "MX_CONFIG" not in found
    assert found["DMLC_NUM_WORKER"] == "5000"
