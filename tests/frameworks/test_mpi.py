from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pliant.frameworks.mpi import Mpi
from pliant.model.job import Job, Port
from tests.builders import make_group
from tests.frameworks.contracts import told, written_for

JOB = written_for("mpi", Launcher=1, Worker=2, options={"slots_per_worker": 2})


def test_open_mpi_finds_the_hosts_and_a_way_to_them() -> None:
    found = told(JOB, "Launcher")
    assert found["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
    assert found["OMPI_MCA_plm_rsh_agent"] == found["PRTE_MCA_plm_ssh_agent"] == "/etc/mpi/rsh"
    assert (found["OMPI_MCA_orte_set_default_slots"], found["K_MPI_JOB_ROLE"]) == ("2", "launcher")
    assert Mpi().files(JOB)["hostfile"] == "bert-worker-0 slots=2\nbert-worker-1 slots=2\n"
    assert Mpi().files_dir == "/etc/mpi"


@pytest.mark.parametrize(
    ("implementation", "variable"), [("Intel", "I_MPI_HYDRA_BOOTSTRAP_EXEC"), ("MPICH", "HYDRA_LAUNCHER_EXEC")]
)
def test_other_implementations_have_words_of_their_own(implementation: str, variable: str) -> None:
    job = written_for("mpi", launcher=1, worker=1, options={"mpi_implementation": implementation})
    found = told(job, "launcher")
    assert found[variable] == "/etc/mpi/rsh"
    assert not any(name.startswith("OMPI") for name in found)
    assert Mpi().files(job)["hostfile"] == "bert-worker-0:1\n"


def test_a_launcher_without_gpus_sees_none_and_a_worker_keeps_its_own() -> None:
    assert told(JOB, "Launcher")["NVIDIA_VISIBLE_DEVICES"] == ""
    assert "NVIDIA_VISIBLE_DEVICES" not in told(JOB, "Worker")


def test_a_worker_has_a_slot_for_each_gpu() -> None:
    limits = {"limits": {"nvidia.com/gpu": "8"}}
    workers = replace(make_group("worker", 1), template={"spec": {"containers": [{"name": "w", "resources": limits}]}})
    assert Mpi().files(written_for("mpi", workers, launcher=1))["hostfile"] == "bert-worker-0 slots=8\n"


def test_a_launcher_may_be_a_worker_too() -> None:
    job = written_for("mpi", launcher=1, worker=1, options={"run_launcher_as_worker": True})
    assert Mpi().files(job)["hostfile"] == "bert-launcher-0 slots=1\nbert-worker-0 slots=1\n"


def test_the_key_is_another_for_every_job() -> None:
    namesake = replace(JOB, owner=replace(JOB.owner, uid="another"))
    assert Mpi().files(JOB)["agent.json"] != Mpi().files(namesake)["agent.json"]


def folder_of(job: Job, folder: Path) -> Path:
    for name, text in Mpi().files(job).items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o555)
    return folder


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("bounds", "possible"), [({}, range(18)), ({"min_size": 1, "max_size": 4, "is_elastic": True}, range(4))]
)
def test_hosts_are_found_by_looking_up_every_possible_one(
    bounds: dict[str, Any], possible: range, tmp_path: Path
) -> None:
    job = written_for("horovod", make_group("worker", 2, **bounds), launcher=1)
    folder = folder_of(job, tmp_path)
    program(tmp_path, "getent", f'#!/bin/sh\necho "$2" >>{tmp_path}/asked\ncase $2 in *-1|*-3) ;; *) exit 2 ;; esac\n')
    ran = subprocess.run(
        [folder / "discover_hosts.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "bert-worker-1:1\nbert-worker-3:1\n"
    assert (tmp_path / "asked").read_text().split() == [f"bert-worker-{index}" for index in possible]


def test_an_empty_list_is_never_told(tmp_path: Path) -> None:
    folder = folder_of(written_for("mpi", launcher=1, worker=1), tmp_path)
    program(tmp_path, "getent", "#!/bin/sh\nexit 2\n")
    program(tmp_path, "sleep", f"#!/bin/sh\necho >>{tmp_path}/waited\n")
    ran = subprocess.run(
        [folder / "discover_hosts.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert len((tmp_path / "waited").read_text().splitlines()) == 60


@contextmanager
def worker(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([folder / "worker"]) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    workers = make_group("worker", 1, ports=(Port("mpi-port", port),))
    return folder_of(written_for("mpi", workers, launcher=1), tmp_path)


def remotely(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "rsh"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


def test_a_command_runs_on_a_worker_that_is_not_up_yet(folder: Path) -> None:
    words = [
        sys.executable,
        str(folder / "rsh"),
        "-o",
        "A=1",
        "127.0.0.1",
        "echo",
        "out;",
        "echo",
        "err",
        ">&2;",
        "exit",
        "3",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        time.sleep(0.3)
        with worker(folder):
            out, err = asking.communicate(timeout=20)
    assert (asking.returncode, out, err) == (3, b"out\n", b"err\n")


@pytest.mark.parametrize("form", [("-l", "root", "localhost"), ("-x", "localhost"), ("root@localhost",)])
def test_the_ways_in_which_launchers_name_a_host_are_understood(folder: Path, form: tuple[str, ...]) -> None:
    with worker(folder):
        ran = remotely(folder, *form, "echo there")
    assert (ran.returncode, ran.stdout) == (0, "there\n")


def test_a_command_that_is_killed_ends_as_in_a_shell(folder: Path) -> None:
    with worker(folder):
        assert remotely(folder, "localhost", "kill -9 $$").returncode == 137


def test_who_does_not_know_the_key_is_not_served(folder: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    settings = json.loads((folder / "agent.json").read_text())
    (stranger / "agent.json").write_text(json.dumps({**settings, "key": "guessed"}))
    (stranger / "rsh").write_text((folder / "rsh").read_text())
    with worker(folder):
        assert remotely(folder, "localhost", "true").returncode == 0
        ran = remotely(stranger, "localhost", f"touch {tmp_path}/touched")
    assert ran.returncode == 255
    assert not (tmp_path / "touched").exists()


def test_what_a_launcher_started_ends_with_it(folder: Path, tmp_path: Path) -> None:
    with worker(folder):
        command = [sys.executable, str(folder / "rsh"), "localhost", f"echo $$ >{tmp_path}/pid; sleep 600; true"]
        with subprocess.Popen(command) as asking:
            pid = _number_in(tmp_path / "pid")
            asking.send_signal(signal.SIGKILL)
        _until_gone(pid)


def test_a_worker_that_is_told_to_stop_stops_at_once(folder: Path) -> None:
    with worker(folder) as process:
        assert remotely(folder, "localhost", "true").returncode == 0
        process.terminate()
        assert process.wait(timeout=5) == 0


def _number_in(path: Path) -> int:
    for _ in range(100):
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.1)
    pytest.fail(f"nothing in {path}")


def _until_gone(pid: int) -> None:
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{pid} is still there")
