"""Jobs that may lose members."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pliant.model.actions import CreatePod
from pliant.model.job import EndPolicy
from pliant.model.messages import MessageReason, message
from pliant.model.observed import NodeFault, ObservedPod, PodPhase
from pliant.model.state import JobPhase
from tests.builders import NOON, make_group, make_job, make_pod, restarting, seeing
from tests.engine.rulings import RUNNING, decided, exited, intent_of, is_transition, names, status_of, verdict_of

DEAD = NodeFault(description="is gone", since=NOON - timedelta(minutes=1))


def member(index: int, letter: str) -> ObservedPod:
    """R runs, S succeeded, F failed, L was lost with its node."""
    if letter == "L":
        return make_pod(index, node_fault=DEAD, node="n1")
    phase = {"R": PodPhase.RUNNING, "S": PodPhase.SUCCEEDED, "F": PodPhase.FAILED}[letter]
    return make_pod(index, phase, code=1 if letter == "F" else None)


@pytest.mark.parametrize(
    ("members", "least", "end"),
    [
        ("RRF", 2, None),
        ("RRL", 2, None),
        ("RFF", 2, JobPhase.FAILED),
        ("RFF", 1, None),
        ("RFF", 0, None),
        ("FRR", 1, JobPhase.FAILED),
        ("LRR", 1, JobPhase.NODE_FAIL),
        ("RLL", 2, JobPhase.NODE_FAIL),
        ("FFF", 0, JobPhase.FAILED),
        ("SSF", 2, JobPhase.SUCCEED),
        ("SSL", 2, JobPhase.SUCCEED),
        ("SRF", 2, None),
        ("SFF", 1, JobPhase.SUCCEED),
        ("SFF", 2, JobPhase.FAILED),
    ],
)
def test_a_group_may_lose_all_but_its_first_down_to_its_least(members: str, least: int, end: JobPhase | None) -> None:
    group = make_group(size=3, min_size=least, max_size=3, is_elastic=True)
    job = make_job(group, state=RUNNING, is_fault_tolerant=True)
    decision = decided(job, seeing(*(member(i, letter) for i, letter in enumerate(members))))
    assert (verdict_of(decision).phase if is_transition(decision) else None) is end


@pytest.mark.parametrize(("is_elastic", "is_tolerant"), [(False, True), (True, False), (False, False)])
def test_bounds_and_tolerance_are_both_needed(is_elastic: bool, is_tolerant: bool) -> None:
    group = make_group(size=3, min_size=1, is_elastic=is_elastic)
    job = make_job(group, state=RUNNING, is_fault_tolerant=is_tolerant)
    assert verdict_of(decided(job, seeing(*(member(i, "RRF"[i]) for i in range(3))))).phase is JobPhase.FAILED


def test_whoever_may_be_restarted_is_not_given_up() -> None:
    group = make_group(size=3, min_size=1, is_elastic=True, restart=restarting(limit=1))
    job = make_job(group, state=RUNNING, is_fault_tolerant=True)
    assert intent_of(decided(job, seeing(*(member(i, "RRF"[i]) for i in range(3))))).phase is JobPhase.RESTARTING


def test_those_given_up_are_named_and_not_made_again() -> None:
    job = make_job(make_group(size=3, min_size=1, is_elastic=True), state=RUNNING, is_fault_tolerant=True)
    decision = decided(job, seeing(*(member(i, "RRF"[i]) for i in range(3))))
    assert status_of(decision).message == message(MessageReason.RUNNING_WITH_FAILURES, [exited("worker-2")])
    later = decided(make_job(*job.groups, state=status_of(decision), is_fault_tolerant=True), seeing(member(0, "R")))
    assert names(later, CreatePod) == ["demo-worker-1"]


def test_each_group_is_judged_by_its_own_bounds() -> None:
    servers = make_group("ps", 1, complete=EndPolicy.NONE)
    workers = make_group(size=2, min_size=1, is_elastic=True)
    job = make_job(servers, workers, state=RUNNING, is_fault_tolerant=True)
    lost = make_pod(0, PodPhase.FAILED, group="ps", code=1)
    assert verdict_of(decided(job, seeing(lost, make_pod(0), make_pod(1)))).phase is JobPhase.FAILED
