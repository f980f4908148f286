"""How fast jobs are, told from what their members report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.frontends.status.results import ProgressStatus
from pliant.model.job import Job
from pliant.model.state import GroupState

THROUGHPUT_METRICS = (
    "throughput",
    "samples_per_second",
    "examples_per_second",
    "images_per_second",
    "tokens_per_second",
)
"""What a speed may be called in a report; the first that is there counts."""
MIN_RELATIVE_CHANGE = 0.05
"""How much a speed must differ from what is known, as a part of it, to be worth remembering."""
MAX_MEASURED_SIZES = 16
MIN_REPORT_INTERVAL = 2.0
"""Seconds between two reports from which a speed can be told."""


@dataclass(frozen=True, slots=True)
class _ProgressReading:
    """A report, and the size of the group whose members were all at work then."""

    size: int
    at: float
    step: int | None


class ThroughputTracker:
    """Remembers the last report of each job, and by it the speeds at sizes that groups have had."""

    def __init__(self) -> None:
        self._readings: dict[str, _ProgressReading] = {}

    def measure(self, job: Job, group_name: str, progress: Mapping[str, Any]) -> Mapping[int, float]:
        """The speeds of a group, if a new one is known; else nothing.

        The first report after a change of size says nothing: some of its time passed before.
        """
        state = job.state
        memory, counts = (
            (state.group(group_name), state.replica_counts.get(group_name)) if state else (GroupState(), None)
        )
        told = _parse_progress(progress)
        size = memory.applied_size
        if told is None or told.at is None or not size or counts is None or counts.active != size:
            self._readings.pop(job.owner.uid, None)
            return {}
        now = _ProgressReading(size, told.at.timestamp(), told.step)
        before = self._readings.get(job.owner.uid)
        if before is not None and before.size == size and now.at - before.at < MIN_REPORT_INTERVAL:
            return {}
        self._readings[job.owner.uid] = now
        speed = _throughput(told, before, now) if before is not None and before.size == size else None
        return _with_measurement(memory.throughput_by_size, size, speed) if speed else {}

    def forget_job(self, job_uid: str) -> None:
        """Take in that a job is gone."""
        self._readings.pop(job_uid, None)


def _parse_progress(progress: Mapping[str, Any]) -> ProgressStatus | None:
    try:
        return msgspec.convert(progress, ProgressStatus, strict=False) if progress else None
    except msgspec.ValidationError:
        return None


def _throughput(progress: ProgressStatus, previous: _ProgressReading, current: _ProgressReading) -> float | None:
    """What was reported as such; else steps in that time, each of which takes a batch of every member."""
    for name in THROUGHPUT_METRICS:
        if name in progress.metrics:
            return _parse_positive(progress.metrics[name])
    if current.step is None or previous.step is None or current.step <= previous.step:
        return None
    return (current.step - previous.step) / (current.at - previous.at) * current.size


def _parse_positive(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 < value < float("inf") else None


def _with_measurement(known: Mapping[int, float], size: int, throughput: float) -> Mapping[int, float]:
    """What is known with one more speed, halfway to it where the size was known; nothing if it is no news."""
    old = known.get(size)
    fresh = throughput if old is None else (old + throughput) / 2
    if old is not None and abs(fresh - old) <= MIN_RELATIVE_CHANGE * old:
        return {}
    nearest = sorted({**known, size: fresh}, key=lambda each: (abs(each - size), each))[:MAX_MEASURED_SIZES]
    return {each: float(f"{fresh if each == size else known[each]:.4g}") for each in sorted(nearest)}
