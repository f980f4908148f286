"""What an author should know though the job runs."""

from __future__ import annotations

from msgspec.structs import replace

from pliant.model.actions import CreatePod
from pliant.model.messages import MessageReason, message
from tests.builders import make_job, make_pod, seeing
from tests.engine.rulings import RUNNING, decided, event_of, intent_of, is_transition, names, status_of

ODD = "max is below min"
WARNED = message(MessageReason.SPEC_WARNING, message=ODD)


def test_a_warning_is_told_before_anybody_starts() -> None:
    decision = decided(make_job(warnings=(ODD,)), seeing())
    event = event_of(decision)
    assert (event.reason, event.message, event.is_warning) == ("SpecWarning", WARNED, True)
    assert intent_of(decision).emitted_warnings == (ODD,)
    assert intent_of(decision).timeline[-1].message == WARNED


def test_a_warning_that_was_told_changes_nothing() -> None:
    state = replace(RUNNING, emitted_warnings=(ODD,))
    told = decided(make_job(warnings=(ODD,), state=state), seeing(make_pod(0)))
    assert not is_transition(told)
    assert names(told, CreatePod) == ["demo-worker-1"]


def test_only_what_is_new_is_told() -> None:
    state = replace(RUNNING, emitted_warnings=(ODD,))
    decision = decided(make_job(warnings=(ODD, "also this"), state=state), seeing(make_pod(0), make_pod(1)))
    assert event_of(decision).message == message(MessageReason.SPEC_WARNING, message="also this")


def test_a_warning_that_no_longer_holds_is_taken_back() -> None:
    state = replace(RUNNING, emitted_warnings=(ODD, "also this"))
    job = make_job(warnings=("also this",), state=state)
    decision = decided(job, seeing(make_pod(0), make_pod(1)))
    assert not is_transition(decision)
    assert status_of(decision).emitted_warnings == ("also this",)
