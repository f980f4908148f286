"""The English text of every message."""

from __future__ import annotations

import msgspec
import pytest

from pliant.model.english import render
from pliant.model.messages import Message, MessageReason, message
from tests.engine.english_examples import EXAMPLES, EXITED


def test_every_reason_has_an_example() -> None:
    assert set(EXAMPLES) == set(MessageReason)
    assert {given.reason for given, _ in EXAMPLES.values()} == set(MessageReason)


@pytest.mark.parametrize("reason", MessageReason)
def test_a_message_has_its_text(reason: MessageReason) -> None:
    given, text = EXAMPLES[reason]
    assert render(given) == text


@pytest.mark.parametrize("reason", MessageReason)
def test_a_message_survives_being_stored(reason: MessageReason) -> None:
    given, _ = EXAMPLES[reason]
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(given)), Message) == given


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (message(MessageReason.SUSPENDED), "suspended"),
        (message(MessageReason.SUSPENDED, pods=2), "suspended; waiting for 2 pods to terminate"),
        (
            message(MessageReason.RESTARTING, [EXITED], group="worker", used=2, scope="Pod"),
            "worker-1 exited with code 3: no data; restart 2 of worker, scope Pod",
        ),
        (
            message(MessageReason.REPLICA_FAILED, replica="worker-1", cause="Evicted", message="disk"),
            "worker-1 failed: Evicted: disk",
        ),
        (
            message(MessageReason.REPLICA_EXITED, replica="worker-1", code=1, node="n1", fault="is gone"),
            "worker-1 exited with code 1 on node n1, which is gone",
        ),
        (message(MessageReason.PLAN_STARTED, plan="plan-1"), "plan-1: "),
    ],
)
def test_optional_parameters_change_the_text(given: Message, text: str) -> None:
    assert render(given) == text


def test_a_message_of_a_newer_version_shows_its_parameters() -> None:
    assert render(Message("Unheard", {"group": "worker"}, (EXITED,))) == (
        "Unheard (group=worker) worker-1 exited with code 3: no data"
    )


def test_parameters_that_are_missing_leave_a_gap() -> None:
    assert render(Message(MessageReason.REPLICA_LOST, {"replica": "worker-1"})) == "worker-1 was lost: node  "


def test_braces_in_parameters_are_shown_as_they_are() -> None:
    told = message(MessageReason.END_REQUESTED, message="{0.__class__} {details}")
    assert render(told) == "{0.__class__} {details}"
