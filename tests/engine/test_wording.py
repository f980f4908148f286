"""What people read about failures."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from pliant.model.english import pluralize, render
from pliant.model.observed import PodExit, PodPhase
from tests.builders import NOON, make_group, make_job, make_pod, seeing
from tests.engine.rulings import RUNNING, decided, verdict_of


def test_the_first_cause_is_named_first() -> None:
    early = replace(make_pod(1, PodPhase.FAILED, code=7), finished_at=NOON)
    late = replace(make_pod(0, PodPhase.FAILED, code=1), finished_at=NOON + timedelta(seconds=5))
    verdict = verdict_of(decided(make_job(state=RUNNING), seeing(late, early)))
    assert render(verdict.message) == "worker-1 exited with code 7, worker-0 exited with code 1"


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (PodExit(code=137), "worker-0 was killed by SIGKILL (exit code 137)"),
        (PodExit(code=137, reason="OOMKilled"), "worker-0 ran out of memory (OOMKilled, exit code 137)"),
        (PodExit(code=255), "worker-0 exited with code 255"),
        (
            PodExit(code=128, reason="StartError", message="no such file"),
            "worker-0 could not be started (StartError): no such file",
        ),
        (PodExit(code=1, message="no data"), "worker-0 exited with code 1: no data"),
        (PodExit(reason="Evicted", message="disk"), "worker-0 failed: Evicted: disk"),
        (PodExit(), "worker-0 failed"),
        (None, "worker-0 failed"),
    ],
)
def test_a_failure_is_told_in_plain_words(end: PodExit | None, words: str) -> None:
    pod = replace(make_pod(0, PodPhase.FAILED), exit=end)
    verdict = verdict_of(decided(make_job(make_group(size=1), state=RUNNING), seeing(pod)))
    assert render(verdict.message) == words


def test_many_causes_are_cut_short() -> None:
    pods = [make_pod(i, PodPhase.FAILED, code=1) for i in range(5)]
    verdict = verdict_of(decided(make_job(make_group(size=5), state=RUNNING), seeing(*pods)))
    assert render(verdict.message).endswith("and 2 more")


@pytest.mark.parametrize(("number", "told"), [(1, "1 worker"), (2, "2 workers")])
def test_numbers_are_told_with_their_plural(number: int, told: str) -> None:
    assert pluralize(number, "worker") == told
    assert pluralize(number, "ps") == f"{number} ps"
