"""The sentences people read in statuses, events and timelines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.engine.roster import Place, Standing
from pliant.model.observed import Exit

MOST_NAMED = 3
NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers whose program never ran, so that its exit code is not its own."""


def manner_of(end: Exit | None) -> str:
    """How a member ended: `exited with code 3`, `was killed by SIGKILL (exit code 137)`."""
    if end is None:
        return "failed"
    if end.code is None:
        return _with_detail(f"failed: {end.reason}" if end.reason else "failed", end.message)
    said = f"exited with code {end.code}"
    if end.reason in NEVER_STARTED:
        said = f"could not be started ({end.reason})"
    elif end.reason == "OOMKilled":
        said = f"ran out of memory (OOMKilled, exit code {end.code})"
    elif end.signal:
        said = f"was killed by {end.signal} (exit code {end.code})"
    return _with_detail(said, end.message)


def failure_of(place: Place) -> str:
    """Which member is in trouble and how: `worker-1 exited with code 3`."""
    pod = place.pod
    if pod is None:
        return f"{place.title} failed"
    if place.standing is Standing.LEAVING:
        return f"{place.title} was deleted"
    if place.standing is Standing.DISRUPTED:
        return f"{place.title} {pod.disruption}"
    if pod.stuck is not None and place.standing is Standing.SCHEDULED:
        return f"{pod.name} on {pod.node} cannot create container {pod.stuck.container}: {pod.trouble}"
    if pod.fault is None:
        return f"{place.title} {manner_of(pod.exit)}"
    if place.standing is Standing.LOST:
        return f"{place.title} was lost: node {pod.node} {pod.fault.what}"
    return f"{place.title} {manner_of(pod.exit)} on node {pod.node}, which {pod.fault.what}"


def listing(names: Sequence[str]) -> str:
    """A short enumeration: `a, b, c and 4 more`."""
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


def troubles(places: Iterable[Place]) -> list[str]:
    """Why members do not start, one sentence each."""
    return [f"{place.title}: {place.pod.trouble}" for place in places if place.pod and place.pod.trouble]


def counted(number: int, noun: str) -> str:
    """`1 member`, `2 members`, `2 ps`."""
    return f"{number} {noun}" if number == 1 or noun.endswith("s") else f"{number} {noun}s"


def _with_detail(said: str, detail: str) -> str:
    return f"{said}: {detail}" if detail else said
