"""Who speaks for a group, and which groups for the job."""

from __future__ import annotations

import pytest

from pliant.model.job import EndPolicy
from pliant.model.messages import MessageReason
from pliant.model.observed import PodPhase
from pliant.model.state import JobPhase
from tests.builders import make_group, make_job, make_pod, seeing
from tests.engine.rulings import RUNNING, decided, intent_of, is_transition, verdict_of

ENDS = {"S": PodPhase.SUCCEEDED, "F": PodPhase.FAILED, "R": PodPhase.RUNNING, "P": PodPhase.PENDING}


@pytest.mark.parametrize(
    ("policy", "members", "is_complete"),
    [
        (EndPolicy.ANY, "RS", True),
        (EndPolicy.ANY, "RR", False),
        (EndPolicy.RANK0, "SR", True),
        (EndPolicy.RANK0, "RS", False),
        (EndPolicy.ALL, "SS", True),
        (EndPolicy.ALL, "SR", False),
        (EndPolicy.NONE, "SR", False),
    ],
)
def test_the_complete_policy_of_a_group_says_who_speaks_for_it(
    policy: EndPolicy, members: str, is_complete: bool
) -> None:
    job = make_job(make_group(complete=policy), state=RUNNING)
    decision = decided(job, seeing(*(make_pod(i, ENDS[end]) for i, end in enumerate(members))))
    assert is_transition(decision) is is_complete
    if is_complete:
        verdict = verdict_of(decision)
        assert verdict.phase is JobPhase.SUCCEED


@pytest.mark.parametrize(
    ("policy", "members", "is_failed"),
    [
        (EndPolicy.ANY, "RF", True),
        (EndPolicy.RANK0, "FR", True),
        (EndPolicy.RANK0, "RF", False),
        (EndPolicy.ALL, "FF", True),
        (EndPolicy.ALL, "FR", False),
        (EndPolicy.NONE, "FR", False),
    ],
)
def test_the_fail_policy_of_a_group_says_who_speaks_for_it(policy: EndPolicy, members: str, is_failed: bool) -> None:
    job = make_job(make_group(fail=policy), state=RUNNING)
    pods = [make_pod(i, ENDS[end], code=3 if end == "F" else None) for i, end in enumerate(members)]
    decision = decided(job, seeing(*pods))
    assert is_transition(decision) is is_failed
    if is_failed:
        verdict = verdict_of(decision)
        assert verdict.phase is JobPhase.FAILED
        assert {cause.parameters["code"] for cause in verdict.message.details} == {3}


@pytest.mark.parametrize(
    ("policy", "ps", "worker", "phase"),
    [
        (EndPolicy.ALL, "R", "S", None),
        (EndPolicy.ANY, "R", "S", JobPhase.SUCCEED),
        (EndPolicy.ALL, "S", "S", JobPhase.SUCCEED),
    ],
)
def test_the_complete_policy_of_the_job_says_which_groups_must_be_done(
    policy: EndPolicy, ps: str, worker: str, phase: JobPhase | None
) -> None:
    job = make_job(make_group("ps", 1), make_group("worker", 1), complete=policy, state=RUNNING)
    seen = seeing(make_pod(0, ENDS[ps], group="ps"), make_pod(0, ENDS[worker]))
    decision = decided(job, seen)
    if phase is None:
        assert not is_transition(decision)
    else:
        verdict = verdict_of(decision)
        assert verdict.phase is phase


def test_a_group_without_a_say_does_not_hold_up_completion() -> None:
    servers = make_group("ps", 1, complete=EndPolicy.NONE)
    job = make_job(servers, make_group("worker", 1), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, group="ps"), make_pod(0, PodPhase.SUCCEEDED)))
    assert intent_of(decision).phase is JobPhase.TERMINATING


def test_completion_beats_failure() -> None:
    job = make_job(make_group(complete=EndPolicy.ANY), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.FAILED, code=1)))
    verdict = verdict_of(decision)
    assert verdict.phase is JobPhase.SUCCEED


def test_a_job_that_can_no_longer_complete_fails_instead_of_hanging() -> None:
    job = make_job(make_group(fail=EndPolicy.ALL), state=RUNNING)
    decision = decided(job, seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.FAILED, code=1)))
    verdict = verdict_of(decision)
    assert verdict.phase is JobPhase.FAILED
    assert verdict.message.reason == MessageReason.COMPLETE_POLICY_NOT_MET


def test_when_no_group_has_a_say_the_members_together_decide() -> None:
    job = make_job(make_group(complete=EndPolicy.NONE, fail=EndPolicy.NONE), state=RUNNING)
    ended = seeing(make_pod(0, PodPhase.SUCCEEDED), make_pod(1, PodPhase.SUCCEEDED))
    verdict = verdict_of(decided(job, ended))
    assert verdict.phase is JobPhase.SUCCEED


@pytest.mark.parametrize(
    ("members", "is_complete"),
    [("SSP", True), ("SSR", False), ("SPP", False), ("RSP", False), ("PPP", False), ("SS", True)],
)
def test_those_whom_the_autoscaler_added_are_not_waited_for_once_the_work_is_done(
    members: str, is_complete: bool
) -> None:
    group = make_group(size=3, min_size=2, max_size=6, is_elastic=True, is_autoscaled=True)
    pods = [make_pod(i, ENDS[end]) for i, end in enumerate(members)]
    decision = decided(make_job(group, state=RUNNING), seeing(*pods))
    assert is_transition(decision) is is_complete
    by_hand = make_group(size=3, min_size=2, max_size=6, is_elastic=True)
    assert not is_transition(decided(make_job(by_hand, state=RUNNING), seeing(*pods)))
