"""Measures the throughput of jobs from their progress reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.frontends.status.results import ProgressStatus
from pliant.model.job import Job
from pliant.model.state import EngineState

THROUGHPUT_METRICS = (
    "throughput",
    "samples_per_second",
    "examples_per_second",
    "images_per_second",
    "tokens_per_second",
)
"""The metric names that report a throughput; the first one present is used."""
MIN_STORED_THROUGHPUT_CHANGE = 0.05  # the relative change from which a new measurement is stored
MAX_MEASURED_SIZES = 16
MIN_REPORT_INTERVAL_SECONDS = 2.0  # the minimum time in seconds between two reports that give a measurement


@dataclass(frozen=True, slots=True)
class _ProgressReading:
    """A progress report, and the size of the group at that time."""

    size: int
    at: float
    step: int | None


class ThroughputTracker:
    def __init__(self) -> None:
        self._readings: dict[str, _ProgressReading] = {}

    def measure(
        self, job: Job, state: EngineState, group_name: str, progress: Mapping[str, Any]
    ) -> Mapping[int, float]:
        """Return the throughputs of a group by size if there is a new measurement, else an empty mapping.

        The first report after a resize is skipped, as it covers time at the old size.
        """
        group_state, counts = state.group(group_name), state.replica_counts.get(group_name)
        report = _parse_progress(progress)
        size = group_state.applied_size
        if report is None or report.time is None or not size or counts is None or counts.active != size:
            self._readings.pop(job.owner.uid, None)
            return {}
        current = _ProgressReading(size, report.time.timestamp(), report.step)
        previous = self._readings.get(job.owner.uid)
        if previous is not None and previous.size == size and current.at - previous.at < MIN_REPORT_INTERVAL_SECONDS:
            return {}
        self._readings[job.owner.uid] = current
        throughput = _throughput(report, previous, current) if previous is not None and previous.size == size else None
        return _with_measurement(group_state.throughput_by_size, size, throughput) if throughput else {}


def _parse_progress(progress: Mapping[str, Any]) -> ProgressStatus | None:
    try:
        return msgspec.convert(progress, ProgressStatus, strict=False) if progress else None
    except msgspec.ValidationError:
        return None


def _throughput(progress: ProgressStatus, previous: _ProgressReading, current: _ProgressReading) -> float | None:
    """Return the reported throughput; without one, steps per second times size, as each replica processes a batch."""
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
    """Return the known throughputs with this one averaged in; empty if it changes too little."""
    known_value = known.get(size)
    updated = throughput if known_value is None else (known_value + throughput) / 2
    if known_value is not None and abs(updated - known_value) <= MIN_STORED_THROUGHPUT_CHANGE * known_value:
        return {}
    nearest_sizes = sorted({**known, size: updated}, key=lambda each: (abs(each - size), each))[:MAX_MEASURED_SIZES]
    return {each: float(f"{updated if each == size else known[each]:.4g}") for each in sorted(nearest_sizes)}
