"""Annotations that end a job."""

from __future__ import annotations

import pytest

from pliant.frontends.spec.metadata import parse_end_request
from pliant.model.job import EndRequest
from pliant.model.state import JobPhase


@pytest.mark.parametrize(
    ("key", "phase"),
    [
        ("failed", JobPhase.FAILED),
        ("Failed", JobPhase.FAILED),
        ("NodeFail", JobPhase.NODE_FAIL),
        ("nodefailed", JobPhase.NODE_FAIL),
        ("PREEMPTED", JobPhase.PREEMPTED),
        ("elasticdeeplearning.ai/preempted", JobPhase.PREEMPTED),
    ],
)
def test_a_job_is_ended_by_an_annotation_in_any_case(key: str, phase: JobPhase) -> None:
    assert parse_end_request({"note": "x", key: " make room "}) == EndRequest(phase=phase, message="make room")


def test_without_words_the_annotation_itself_is_the_message() -> None:
    order = parse_end_request({"Preempted": ""})
    assert order is not None
    assert order.message == "requested by annotation Preempted"


def test_a_message_is_one_line_of_bounded_length() -> None:
    order = parse_end_request({"preempted": "make\nroom " + "x" * 200_000})
    assert order is not None
    assert order.message.startswith("make room xxx")
    assert len(order.message) == 300


def test_other_annotations_end_nothing() -> None:
    assert parse_end_request({"succeed": "x", "failed-before": "y", "failed/reason": "z"}) is None
