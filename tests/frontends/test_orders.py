"""Annotations that end a job."""

from __future__ import annotations

import pytest

from pliant.frontends.orders import order_in
from pliant.model.job import Order
from pliant.model.state import Phase


@pytest.mark.parametrize(
    ("key", "phase"),
    [
        ("failed", Phase.FAILED),
        ("Failed", Phase.FAILED),
        ("NodeFail", Phase.NODE_FAIL),
        ("nodefailed", Phase.NODE_FAIL),
        ("PREEMPTED", Phase.PREEMPTED),
        ("elasticdeeplearning.ai/preempted", Phase.PREEMPTED),
    ],
)
def test_a_job_is_ended_by_an_annotation_in_any_case(key: str, phase: Phase) -> None:
    assert order_in({"note": "x", key: " make room "}) == Order(phase=phase, message="make room")


def test_without_words_the_annotation_itself_is_the_message() -> None:
    order = order_in({"Preempted": ""})
    assert order is not None
    assert order.message == "ordered by annotation Preempted"


def test_a_message_is_one_line_of_bounded_length() -> None:
    order = order_in({"preempted": "make\nroom " + "x" * 200_000})
    assert order is not None
    assert order.message.startswith("make room xxx")
    assert len(order.message) == 300


def test_other_annotations_end_nothing() -> None:
    assert order_in({"succeed": "x", "failed-before": "y", "failed/reason": "z"}) is None
