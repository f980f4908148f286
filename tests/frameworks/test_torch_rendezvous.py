from __future__ import annotations

import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pliant.frameworks.pytorch import PyTorch
from pliant.frameworks.torch_rendezvous import HOST_PORTS, MAX_RESTARTS, RENDEZVOUS_CONF, build_store, find_python
from pliant.model.framework import Rank
from pliant.model.job import Job
from tests.frameworks.test_pytorch import TEMPLATE, told, torch_job

STUB_OF_TORCH = """
import socket
class TCPStore:
    def __init__(self, host_name, port, *, is_master, wait_for_workers):
        assert is_master and not wait_for_workers
        self.server = socket.create_server((host_name, port))
"""


def torchrun_job(elastic: dict[str, Any] | None = None, /, **sizes: int) -> Job:
    """A job whose containers start torchrun."""
    return with_container(torch_job(elastic, **sizes), command=["torchrun", "train.py"])


def job_with_store(elastic: dict[str, Any] | None = None) -> Job:
    job = torchrun_job(elastic or {}, Worker=3)
    store = PyTorch().control_group(job)
    return job if store is None else replace(job, groups=(*job.groups, store))


def job_with_container(**fields: Any) -> Job:
    return with_container(torch_job({}, Worker=2), **{"command": ["torchrun", "train.py"], **fields})


def with_container(job: Job, **fields: Any) -> Job:
    container = {**TEMPLATE["spec"]["containers"][0], **fields}
    template = {"spec": {"containers": [container]}}
    return replace(job, groups=tuple(replace(group, template=template) for group in job.groups))


def read_conf(environment: dict[str, str]) -> dict[str, str]:
    return dict(pair.split("=") for pair in environment["PET_RDZV_CONF"].split(","))


def test_the_agents_of_an_elastic_job_meet_at_the_store_and_none_of_them_hosts_it() -> None:
    found = told(job_with_store(), "Worker", 1)
    assert found["PET_RDZV_ENDPOINT"] == "bert-rendezvous-0.bert:23456"
    assert found["PET_RDZV_BACKEND"] == "c10d"
    assert read_conf(found) == RENDEZVOUS_CONF
    assert read_conf(found)["is_host"] == "0"
    assert found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    assert found["PET_MAX_RESTARTS"] == str(MAX_RESTARTS)


def test_an_agent_and_its_replacement_have_the_same_address() -> None:
    job = job_with_store()
    group = job.group("Worker")
    assert group is not None
    for attempt in (0, 1):
        rank = Rank(group=group, index=2, attempt=attempt)
        assert PyTorch().environment(job, rank, "pytorch") == {"PET_LOCAL_ADDR": "bert-worker-2.bert"}


def test_the_options_of_the_job_take_precedence_over_the_settings_for_the_store() -> None:
    conf = [{"key": "last_call_timeout", "value": "20"}, {"key": "heartbeat_timeout", "value": "9"}]
    found = told(job_with_store({"maxRestarts": 0, "rdzvConf": conf, "rdzvPort": 4000, "rdzvId": "mine"}), "Worker", 0)
    assert read_conf(found) == {**RENDEZVOUS_CONF, "last_call_timeout": "20", "heartbeat_timeout": "9"}
    assert found["PET_MAX_RESTARTS"] == "0"
    assert found["PET_RDZV_ENDPOINT"] == "bert-rendezvous-0.bert:4000"
    assert found["PET_RDZV_ID"] == "mine"


def test_without_a_store_the_settings_are_those_of_torchrun() -> None:
    found = told(torch_job({}, Worker=3), "Worker", 1)
    assert found["PET_RDZV_ENDPOINT"] == "bert-worker-0:23456"
    names = {"PET_RDZV_CONF", "PET_MAX_RESTARTS", "PET_MONITOR_INTERVAL", "PET_LOCAL_ADDR"}
    assert not {*names, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"} & found.keys()


def test_the_store_listens_on_the_rendezvous_port() -> None:
    for elastic, port in (({"rdzvPort": 4000}, 4000), ({}, 23456)):
        store = PyTorch().control_group(torchrun_job(elastic, Worker=2))
        assert store is not None
        [container] = store.template["spec"]["containers"]
        assert container["command"] == list(build_store(port).command)
        assert container["ports"] == [{"name": "store", "containerPort": port}]


def test_the_store_takes_the_image_of_the_workers_and_not_their_devices() -> None:
    gpu = {"limits": {"nvidia.com/gpu": "8"}}
    store = PyTorch().control_group(job_with_container(image="train:7", resources=gpu, volumeMounts=[{"name": "data"}]))
    assert store is not None
    [container] = store.template["spec"]["containers"]
    assert container["image"] == "train:7"
    assert "nvidia.com/gpu" not in str(container)
    assert "volumeMounts" not in container


@pytest.mark.parametrize(
    ("command", "python"),
    [
        (["torchrun", "train.py"], "python3"),
        (["/opt/conda/bin/torchrun", "train.py"], "/opt/conda/bin/python3"),
        (["/venv/bin/python3.11", "-m", "torch.distributed.run", "train.py"], "/venv/bin/python3.11"),
        (["sh", "-c", "torchrun train.py"], "python3"),
    ],
)
def test_the_store_runs_with_the_python_of_the_workers(command: list[str], python: str) -> None:
    job = job_with_container(command=command)
    assert find_python(job.groups[0]) == python


def test_a_user_can_do_without_the_store() -> None:
    job = replace(torchrun_job({}, Worker=2), has_rendezvous_store=False)
    assert PyTorch().control_group(job) is None


@pytest.mark.parametrize(
    ("command", "is_expected"),
    [
        ([], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["bash", "/workspace/train.sh"], True),
        (["accelerate", "launch", "train.py"], True),
        (["python", "train.py"], False),
        (["sh", "-c", "sleep 600"], False),
    ],
)
def test_only_jobs_that_may_start_torchrun_have_the_store(command: list[str], is_expected: bool) -> None:
    job = job_with_container(command=command)
    assert (PyTorch().control_group(job) is not None) is is_expected
    assert PyTorch().control_group(replace(job, has_rendezvous_store=True)) is not None


@pytest.mark.parametrize("policy", [{"rdzvHost": "bert-worker-0"}, {"rdzvBackend": "etcd"}, {"standalone": True}])
def test_a_job_that_chose_its_rendezvous_has_no_store(policy: dict[str, Any]) -> None:
    assert PyTorch().control_group(torchrun_job(policy, Worker=2)) is None


def test_a_job_of_fixed_size_has_no_store() -> None:
    assert PyTorch().control_group(torchrun_job(Master=1, Worker=2)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"env": [{"name": "PET_RDZV_ENDPOINT", "value": "etcd:2379"}]},
        {"env": [{"name": "PET_STANDALONE", "value": "1"}]},
        {"command": ["torchrun", "--rdzv-endpoint", "bert-worker-0:29400", "train.py"]},
        {"command": ["sh", "-c"], "args": ["torchrun --rdzv_endpoint=$(HOST):29400 train.py"]},
        {"command": ["torchrun", "--rdzv_backend=etcd-v2", "train.py"]},
        {"command": ["torchrun"], "args": ["--standalone", "train.py"]},
    ],
)
def test_a_container_that_chose_its_rendezvous_gets_no_store(fields: dict[str, Any]) -> None:
    assert PyTorch().control_group(job_with_container(**fields)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["torchrun", "--rdzv_backend=c10d", "--rdzv_endpoint=$(PET_RDZV_ENDPOINT)", "train.py"]},
        {"command": ["sh", "-c", "torchrun --rdzv-backend c10d --rdzv-endpoint $PET_RDZV_ENDPOINT train.py"]},
        {"command": ["torchrun", "--nnodes=1:4", "train.py"], "env": [{"name": "PET_MAX_RESTARTS", "value": "3"}]},
    ],
)
def test_a_container_that_repeats_the_default_rendezvous_gets_the_store(fields: dict[str, Any]) -> None:
    assert PyTorch().control_group(job_with_container(**fields)) is not None


def test_the_program_of_the_store_says_that_it_listens_and_exits_with_0_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "distributed.py").write_text(STUB_OF_TORCH)
    with socket.create_server(("localhost", 0)) as server:
        port = server.getsockname()[1]
    environ = {"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = build_store(port, sys.executable).command
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"rendezvous store: listening on port {port}\n"
            socket.create_connection(("localhost", port), timeout=10).close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("python", "reason"),
    [(sys.executable, "No module named 'torch'"), ("no-such-python", "this image has no no-such-python")],
)
def test_an_image_that_is_not_for_torchrun_keeps_the_job_running(python: str, reason: str) -> None:
    command = build_store(23456, python).command
    with subprocess.Popen(command, env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert reason in process.stdout.readline()
            assert process.poll() is None
        finally:
            process.kill()


def test_a_store_on_the_network_of_its_node_has_a_port_of_its_own() -> None:
    ports = set()
    for uid in ("one", "two"):
        job = with_container(torch_job({}, Worker=2), command=["torchrun", "train.py"])
        groups = tuple(
            replace(each, template={"spec": {**each.template["spec"], "hostNetwork": True}}) for each in job.groups
        )
        job = replace(job, groups=groups, owner=replace(job.owner, uid=uid))
        store = PyTorch().control_group(job)
        assert store is not None
        [port] = store.ports
        container = store.template["spec"]["containers"][0]
        assert (container["command"][-1], container["ports"][0]["containerPort"]) == (str(port.number), port.number)
        found = told(replace(job, groups=(*job.groups, store)), "Worker", 1)
        assert found["PET_RDZV_ENDPOINT"] == f"bert-rendezvous-0.bert:{port.number}"
        assert port.number in HOST_PORTS
        ports.add(port.number)
    assert len(ports) == 2


def test_a_python_in_a_volume_of_the_workers_cannot_host_the_store() -> None:
    python = "/opt/conda/bin/python3"
    mounts = [{"name": "tools", "mountPath": "/opt/"}]
    job = job_with_container(command=[python, "-m", "torch.distributed.run", "t.py"], volumeMounts=mounts)
    assert PyTorch().control_group(job) is None
    assert told(job, "Worker", 1)["PET_RDZV_ENDPOINT"].startswith("bert-worker-0")
    wanted = PyTorch().control_group(replace(job, has_rendezvous_store=True))
    assert wanted is not None
    elsewhere = job_with_container(command=[python, "-m", "torch.distributed.run", "t.py"], volumeMounts=[])
    assert PyTorch().control_group(elsewhere) is not None
