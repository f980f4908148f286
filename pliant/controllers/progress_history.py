"""A bounded history of the progress reports of one job, which is a part of its status."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from pliant.frontends.status.results import ProgressHistory, ProgressPoint, read_progress

MAX_HISTORY_POINTS = 64
MAX_HISTORY_METRICS = 3
"""Metrics of a point. A full history has 4 KiB with one metric, and less than 10 KiB with three long ones."""


def with_point(history: ProgressHistory, point: ProgressPoint) -> ProgressHistory:
    """Return the history with a point, unless the last one is less than one interval old.

    A full history loses every second point, and its interval doubles: it covers the whole life of a job.
    """
    points = history.points
    if points and 0 <= (point.time - points[-1].time).total_seconds() < history.interval_seconds:
        return history
    if len(points) < MAX_HISTORY_POINTS:
        return replace(history, points=(*points, point))
    return with_point(ProgressHistory(interval_seconds=2 * history.interval_seconds, points=points[::2]), point)


def with_earlier_history(history: ProgressHistory, earlier: ProgressHistory) -> ProgressHistory:
    """Return the stored history of a job, continued by points that were collected before it was read."""
    for point in history.points:
        if not earlier.points or point.time > earlier.points[-1].time:
            earlier = with_point(earlier, point)
    return earlier


def stored_history(status: Mapping[str, object]) -> ProgressHistory:
    """Return the history in a raw status; an empty one if there is none or a user has damaged it."""
    progress = read_progress(status)
    return progress.history if progress is not None and progress.history is not None else ProgressHistory()


def history_metrics(metrics: Mapping[str, str]) -> dict[str, str]:
    return dict(islice(metrics.items(), MAX_HISTORY_METRICS))


def history_to_dict(history: ProgressHistory) -> dict[str, object]:
    """Return the history in the form of the status."""
    fields: dict[str, object] = msgspec.to_builtins(history)
    return fields
