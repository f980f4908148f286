"""The membership: what a replica knows about its peers, also while the operator does not respond."""

from __future__ import annotations

import time

import pytest

from pliant import elastic
from tests.elastic.conftest import close_job
from tests.elastic.operator_server import OperatorServer
from tests.elastic.programs import run_program


def test_a_program_alone_is_the_only_member(job: elastic.Job) -> None:
    generation, rank, members = job.membership()
    assert (generation, rank, [member.name for member in members]) == (0, 0, ["worker-0"])


def test_the_members_are_unknown_until_the_operator_has_responded(operator: OperatorServer, job: elastic.Job) -> None:
    assert job.membership() == elastic.Membership(-1, 0, ())
    known = job.wait_membership(-1, timeout=20)
    assert (known.generation, known.rank) == (1, 1)
    assert known.members[1] == elastic.Member("worker-1", "worker", 1, 1, "demo-1")
    assert job.membership() is known


def test_a_change_arrives_within_one_request(operator: OperatorServer, job: elastic.Job) -> None:
    job.wait_membership(-1, timeout=20)
    operator.wait_for("polls", 2)
    start = time.monotonic()
    operator.publish(generation=2, size=3)
    assert len(job.wait_membership(1, timeout=20).members) == 3
    assert time.monotonic() - start < 2.0  # a machine that runs other things, too
    assert operator.polls[:2] == [
        {"generation": 0, "checkpoint": 0, "wait": 0},
        {"generation": 1, "checkpoint": 0, "wait": elastic.LONG_POLL_TIMEOUT},
    ]


def test_waiting_ends_with_the_timeout(operator: OperatorServer, job: elastic.Job) -> None:
    known = job.wait_membership(-1, timeout=20)
    assert job.wait_membership(1, timeout=0.05) is known


@pytest.mark.parametrize(
    "answer",
    [
        (503, b"not the leader"),
        (401, b"send the token"),
        (404, b"{}"),
        (429, b"too busy"),
        (500, b""),
        (302, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"\xff\xfe"),
        (200, b'{"generation": 2, "rank": 0, "members": [{"name": 1}], "checkpoint": null}'),
        (200, b'{"generation": "many", "rank": 0, "members": [], "checkpoint": null}'),
        (200, b'{"generation": 2, "rank": 0, "members": [], "checkpoint": {"id": "x"}}'),
    ],
)
def test_the_last_known_members_stay_while_responses_are_errors_or_malformed(
    operator: OperatorServer, job: elastic.Job, answer: tuple[int, bytes]
) -> None:
    known = job.wait_membership(-1, timeout=20)
    operator.wait_for("polls", 2)
    operator.publish(answer=answer)
    assert job.wait_membership(1, timeout=0.1) is known
    operator.publish(answer=None, generation=3)
    assert job.wait_membership(1, timeout=20).generation == 3


def test_requests_are_rare_while_a_server_fails_or_ignores_the_waiting_time(
    operator: OperatorServer, job: elastic.Job
) -> None:
    operator.answer = (503, b"")
    job.wait_membership(-1, timeout=0.6)
    assert operator.responses <= 5
    operator.publish(answer=(200, b'{"generation": 7, "rank": 0, "members": [], "checkpoint": null}'))
    job.wait_membership(-1, timeout=20)
    before = operator.responses
    time.sleep(0.5)
    assert operator.responses <= before + 3


def test_a_program_does_not_wait_for_a_slow_operator_and_ends_at_once(operator: OperatorServer) -> None:
    operator.delay = 3.0
    script = """
import time
job = elastic.join(checkpoints=True)
start = time.monotonic()
for step in range(1000):
    job.should_checkpoint(), job.membership()
print(time.monotonic() - start < 1)
"""
    start = time.monotonic()
    assert run_program(script, **operator.environment) == "True\n"
    assert time.monotonic() - start < 60.0


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/report/x", "no address", "http://[", "http://host:port/"])
def test_an_address_without_an_operator_is_no_reason_to_fail(url: str) -> None:
    script = """
job = elastic.join(checkpoints=True)
print(job.should_checkpoint(), job.acknowledge(), job.is_leaving, job.wait_membership(0, 0.05).rank)
"""
    assert run_program(script, PLIANT_REPORT_URL=url) == "False False False 0\n"


def test_a_forked_process_has_threads_of_its_own(operator: OperatorServer) -> None:
    script = """
import os
job = elastic.join()
job.wait_membership(-1, 20)
if os.fork() == 0:
    print(job.wait_membership(-1, 20).generation, flush=True)
    os._exit(0)
os.wait()
"""
    assert run_program(script, **operator.environment) == "1\n"


def test_a_rank_of_the_launcher_is_the_first_rank(monkeypatch: pytest.MonkeyPatch, job: elastic.Job) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    ranked = elastic.Job()
    assert ranked.rank == 2
    shards = ranked.shards("train", size=6, global_batch=6)
    assert [list(shard.records) for shard in shards] == [[4, 5]]
    close_job(ranked)
