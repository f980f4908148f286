"""Annotations that end a job."""

from __future__ import annotations

import pytest

from pliant.frontends.spec.metadata import parse_end_request
from pliant.model.job import EndRequest
from pliant.model.state import JobPhase
from tests.frontends.kubeflow import KINDS, raw_of


@pytest.mark.parametrize(
    ("key", "phase"),
    [
        ("failed", JobPhase.FAILED),
        ("Failed", JobPhase.FAILED),
        ("NodeFail", JobPhase.NODE_FAIL),
        ("nodefailed", JobPhase.NODE_FAIL),
        ("preempted", JobPhase.PREEMPTED),
        ("Preempted", JobPhase.PREEMPTED),
        ("pliant/preempted", JobPhase.PREEMPTED),
    ],
)
def test_a_job_is_ended_by_an_annotation(key: str, phase: JobPhase) -> None:
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
    assert parse_end_request({"ci.example.com/failed": "yes", "PREEMPTED": "x", "example.com/Preempted": "x"}) is None


@pytest.mark.parametrize("value", ["false", "False", " no ", "off", "0"])
def test_an_annotation_that_says_no_ends_nothing(value: str) -> None:
    assert parse_end_request({"failed": value}) is None


def test_kinds_that_never_had_these_annotations_do_not_have_them() -> None:
    annotations = {"failed": "yes", "Preempted": "yes"}
    raw = raw_of("PyTorchJob", {"Worker": 1})
    job = KINDS["PyTorchJob"].parse({**raw, "metadata": {**raw["metadata"], "annotations": annotations}})
    assert job.end_request is None
