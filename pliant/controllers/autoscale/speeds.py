"""How fast jobs are, told from what their members report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from pliant.frontends.results import Progress
from pliant.model.job import Job
from pliant.model.state import GroupState

NAMES = ("throughput", "samples_per_second", "examples_per_second", "images_per_second", "tokens_per_second")
"""What a speed may be called in a report; the first that is there counts."""
NOTEWORTHY = 0.05
"""How much a speed must differ from what is known, as a part of it, to be worth remembering."""
MOST_SIZES = 16
SHORTEST = 2.0
"""Seconds between two reports from which a speed can be told."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A report, and the size of the group whose members were all at work then."""

    size: int
    at: float
    step: int | None


class Speedometer:
    """Remembers the last report of each job, and by it the speeds at sizes that groups have had."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}

    def read(self, job: Job, group: str, progress: Mapping[str, Any]) -> Mapping[int, float]:
        """The speeds of a group, if a new one is known; else nothing.

        The first report after a change of size says nothing: some of its time passed before.
        """
        state = job.state
        memory, counts = (state.group(group), state.counts.get(group)) if state else (GroupState(), None)
        told = _told(progress)
        size = memory.size
        if told is None or told.at is None or not size or counts is None or counts.active != size:
            self._readings.pop(job.owner.uid, None)
            return {}
        now = _Reading(size, told.at.timestamp(), told.step)
        before = self._readings.get(job.owner.uid)
        if before is not None and before.size == size and now.at - before.at < SHORTEST:
            return {}
        self._readings[job.owner.uid] = now
        speed = _speed(told, before, now) if before is not None and before.size == size else None
        return _with(memory.speeds, size, speed) if speed else {}

    def forget(self, uid: str) -> None:
        """Take in that a job is gone."""
        self._readings.pop(uid, None)


def _told(progress: Mapping[str, Any]) -> Progress | None:
    try:
        return msgspec.convert(progress, Progress, strict=False) if progress else None
    except msgspec.ValidationError:
        return None


def _speed(told: Progress, before: _Reading, now: _Reading) -> float | None:
    """What was reported as such; else steps in that time, each of which takes a batch of every member."""
    for name in NAMES:
        if name in told.metrics:
            return _number(told.metrics[name])
    if now.step is None or before.step is None or now.step <= before.step:
        return None
    return (now.step - before.step) / (now.at - before.at) * now.size


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0.0 < value < float("inf") else None


def _with(known: Mapping[int, float], size: int, speed: float) -> Mapping[int, float]:
    """What is known with one more speed, halfway to it where the size was known; nothing if it is no news."""
    old = known.get(size)
    fresh = speed if old is None else (old + speed) / 2
    if old is not None and abs(fresh - old) <= NOTEWORTHY * old:
        return {}
    nearest = sorted({**known, size: fresh}, key=lambda each: (abs(each - size), each))[:MOST_SIZES]
    return {each: float(f"{fresh if each == size else known[each]:.4g}") for each in sorted(nearest)}
