"""The module for training programs, in programs of their own, with a real master on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.model.job_keys import KeyPurpose
from tests.master.people import KEY_VARIABLES, with_key

ROOT = Path(__file__).parents[2]
PROGRAMS: list[subprocess.Popen[str]] = []
LEARN = """
import os, sys, time
from pliant import elastic

job = elastic.join()
for shard in job.shards("train", size=400, shard_size=2, shuffle=1):
    time.sleep(0.02)  # slow enough to be killed in the middle
    print(shard.start, shard.end, flush=True)
"""


def program(script: str, **variables: str) -> subprocess.Popen[str]:
    plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    env = {**plain, "PYTHONPATH": str(ROOT), "JOB_UID": "uid-1", **KEY_VARIABLES, **variables}
    pipe = subprocess.PIPE
    begun = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=pipe, stderr=pipe, text=True)
    PROGRAMS.append(begun)
    return begun


def words(process: subprocess.Popen[str]) -> str:
    """What a program wrote, having ended well."""
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    return out


def learned(texts: list[str]) -> Counter[int]:
    found: Counter[int] = Counter()
    for line in "".join(texts).splitlines():
        start, end = map(int, line.split())
        found.update(range(start, end))
    return found


class Master:
    """One master after another, all at the same address and with the same shelf."""

    def __init__(self, folder: Path) -> None:
        self._shelf = folder / "shelf"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        asked = [sys.executable, "-m", "tests.master.master_process", str(self.port), str(self._shelf)]
        self._process = subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == str(self.port)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        headers = with_key(KeyPurpose.MEMBERSHIP if body is None else KeyPurpose.MASTER)
        with opener.open(urllib.request.Request(f"http://{self.address}{path}", data, headers), timeout=10) as reply:
            return json.loads(reply.read())

    def worker(self, number: int, script: str = LEARN, **more: str) -> subprocess.Popen[str]:
        return program(script, DLROVER_MASTER_ADDR=self.address, NODE_TYPE="worker", NODE_ID=str(number), **more)

    def data_set(self) -> dict[str, int]:
        found: list[dict[str, int]] = self.ask("/v1/datasets")["datasets"]
        return found[0] if found else {"done": 0, "assigned": 0, "available": 0}


@pytest.fixture
def master(tmp_path: Path) -> Iterator[Master]:
    found = Master(tmp_path)
    found.start()
    yield found
    found.kill()
    while PROGRAMS:
        begun = PROGRAMS.pop()
        begun.kill()
        begun.communicate()


def eventually(is_so: Callable[[], bool], within: float = 20.0) -> None:
    until = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)  # nothing tells when it is so


def test_workers_share_the_work_and_learn_every_record_once(master: Master) -> None:
    texts = [words(worker) for worker in [master.worker(number) for number in range(3)]]
    assert learned(texts) == Counter(range(400))
    assert all(texts)
    assert master.data_set() == {"name": "train", "shards": 200, "done": 200, "assigned": 0, "available": 0}


# tests/examples/test_elastic_client.py loses a worker and the master in one job.
@pytest.mark.deep
def test_what_a_killed_worker_held_is_learned_by_the_others(master: Master) -> None:
    workers = [master.worker(number) for number in range(3)]
    eventually(lambda: master.data_set()["done"] > 20)
    workers[1].send_signal(signal.SIGKILL)
    partly, _ = workers[1].communicate()
    texts = [words(workers[0]), words(workers[2])]
    assert set(learned([*texts, partly])) == set(range(400))
    # It may have been killed between a shard's last record and its report.
    assert sum(learned(texts).values()) + sum(learned([partly]).values()) <= 400 + 2
    assert master.ask("/v1/datasets")["returned"] == 1


# tests/examples/test_elastic_client.py loses a worker and the master in one job.
@pytest.mark.deep
def test_training_goes_on_when_the_master_is_killed_and_comes_back(master: Master) -> None:
    workers = [master.worker(number) for number in range(2)]
    eventually(lambda: master.data_set()["done"] > 20)
    master.kill()
    time.sleep(0.3)  # longer than any shard takes: both workers must come to wait
    master.start()
    outs = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    found = learned([out for out, _ in outs])
    assert set(found) == set(range(400))
    # Both say what they did meanwhile before anything is handed out again; a slow machine may make one late.
    assert sum(found.values()) <= 400 + 10
    for _, err in outs:
        begun, back = err.splitlines()
        assert begun.startswith(f"pliant: the job's master at {master.address} does not respond (")
        assert back.startswith("pliant: the job's master responds again after ")
    assert master.data_set()["done"] == 200


def test_without_a_master_a_program_has_all_the_work_and_no_peers() -> None:
    script = """
from pliant import elastic
job = elastic.join()
print([(shard.start, shard.end, shard.epoch) for shard in job.shards("train", size=5, shard_size=2, epochs=2)])
job.beat(step=1, samples=5)
print(job.rank, job.membership().members, job.rendezvous(), job.is_round_over, job.ps_hosts())
"""
    shards, rest = words(program(script)).splitlines()
    assert shards == "[(0, 2, 0), (2, 4, 0), (4, 5, 0), (0, 2, 1), (2, 4, 1), (4, 5, 1)]"
    assert rest == (
        "0 (Member(name='worker-0', group='worker', index=0, rank=0, address='127.0.0.1'),) "
        "Round(number=1, id='alone', rank=0, world_size=1, leader='127.0.0.1') False []"
    )


def test_a_shard_that_was_left_in_the_middle_is_given_to_the_next(master: Master) -> None:
    script = """
from pliant import elastic
job = elastic.join()
for shard in job.shards("train", size=10, shard_size=5):
    break
print([(shard.start, shard.end, shard.epoch) for shard in job.shards("train", size=10, shard_size=5)])
"""
    assert words(master.worker(0, script)) == "[(0, 5, 0), (5, 10, 0)]\n"


def test_children_that_were_forked_work_beside_their_parent(master: Master) -> None:
    script = """
import os
from pliant import elastic
job = elastic.join()
shards = iter(job.shards("train", size=300, shard_size=2))
mine = [next(shards)]
children = [os.fork() for _ in range(2)]
if not all(children):
    mine, shards = [], job.shards("train", size=300, shard_size=2)
for shard in shards:
    mine.append(shard)
os.write(1, "".join(f"{shard.start} {shard.end}\\n" for shard in mine).encode())
if not all(children):
    os._exit(0)
for child in children:
    os.waitpid(child, 0)
"""
    assert learned([words(master.worker(0, script))]) == Counter(range(300))


def test_beats_tell_what_a_process_and_its_children_use(master: Master) -> None:
    script = """
import subprocess, sys, time
from pliant import elastic
job = elastic.join()
held = bytearray(b"x") * 50_000_000
script = "held = bytearray(b'x') * 50_000_000; print(1, flush=True); input()"
child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
until = time.monotonic() + 0.6
while time.monotonic() < until:
    job.beat(step=7, samples=99)
family = elastic._list_process_tree()
usage = elastic._ResourceUsage()
time.sleep(0.3)  # use is measured over a while
print(len(family), usage.measure()["memory"] // 1_000_000 >= 100)
child.communicate(b"\\n")
"""
    assert words(master.worker(0, script)) == "2 True\n"
    with urllib.request.urlopen(f"http://{master.address}/metrics", timeout=10) as reply:
        text = reply.read().decode()
    assert "pliant_master_step 7\n" in text
    assert "pliant_master_samples 99.0\n" in text


def test_workers_meet_and_meet_again_when_one_more_comes(master: Master) -> None:
    script = """
import time
from pliant import elastic
job = elastic.join()
seen = []
while not seen or seen[-1].world_size < 3:
    seen.append(job.rendezvous())
    while seen[-1].world_size < 3 and not job.is_round_over:
        time.sleep(0.02)  # a step of training
print(seen[-1].rank, seen[-1].world_size, seen[-1].leader, seen[-1].id)
"""
    workers = [master.worker(number, script, POD_IP=f"10.0.0.{number}") for number in range(2)]
    time.sleep(0.6)  # longer than rounds wait: the third comes late
    workers.append(master.worker(2, script, POD_IP="10.0.0.2"))
    lines = [words(worker).split() for worker in workers]
    assert [line[:3] for line in lines] == [[str(rank), "3", "10.0.0.0"] for rank in range(3)]
    assert len({line[3] for line in lines}) == 1


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("list(job.shards('train', size=0, shard_size=5))", "RequestRejected: size: must be at least 1, got 0"),
        (
            "[list(job.shards('train', size=size, shard_size=5)) for size in (10, 11)]",
            (
                "RequestRejected: dataset 'train' is already registered with another spec: size is 10, not 11; "
                "use another name"
            ),
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(master: Master, script: str, problem: str) -> None:
    worker = master.worker(0, f"from pliant import elastic\njob = elastic.join()\n{script}")
    assert worker.communicate(timeout=30)[1].splitlines()[-1].startswith(f"pliant.elastic.{problem}")


def test_a_program_of_another_life_of_the_job_is_sent_away(master: Master) -> None:
    worker = master.worker(0, LEARN, JOB_UID="uid-0")
    problem = worker.communicate(timeout=30)[1].splitlines()[-1]
    assert problem.endswith("this master serves the job with uid uid-1, not uid-0")


def test_a_program_without_the_key_is_told_which_variable_it_lacks(master: Master) -> None:
    problem = master.worker(0, LEARN, PLIANT_MASTER_KEY="").communicate(timeout=30)[1]
    assert "the job's master rejects heartbeats: Authorization: " in problem
    assert "pliant.elastic.RequestRejected: Authorization: the key of the job is missing; " in problem
    assert "$PLIANT_MASTER_KEY" in problem
    assert master.data_set() == {"done": 0, "assigned": 0, "available": 0}


def test_a_program_that_tells_nonsense_is_heard_of_all_the_same(master: Master) -> None:
    script = """
import time
from pliant import elastic

class Scalar:
    def __int__(self): return 41
    def __float__(self): return 41.0

job = elastic.join()
job.beat(step=Scalar(), samples=float("nan"))
time.sleep(0.5)  # so that the first is sent by itself
job.beat(samples=Scalar())
"""
    words(program(script, DLROVER_MASTER_ADDR=master.address, NODE_TYPE="worker", NODE_ID="0"))
    with urllib.request.urlopen(f"http://{master.address}/metrics", timeout=5) as reply:
        figures = reply.read().decode()
    assert "pliant_master_step 41" in figures
