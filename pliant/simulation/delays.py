"""How long things take on a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pliant.simulation.times import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Seconds; the defaults are those of a cluster of today whose images are already on its nodes."""

    place: float = 0.1
    """From a pod's creation until the scheduler has looked at it."""
    start: float = 3.0
    """From its place until it runs."""
    leave: float = 2.0
    """From its deletion until its room is free."""
    retry: float = 1.0
    """From when room becomes free until the scheduler looks again at those who wait."""


PUBLISHED = Delays(leave=30.0, retry=30.0)
"""Of the cluster on which EDL was published: trainers that ignore being told to go are killed after a grace period
of 30 seconds, and the scheduler of Kubernetes 1.6 backs off for up to a minute, 30 seconds on average."""


def read_delays(text: str) -> Delays:
    """`published`, or some of them as `start=3,leave=10`; ValueError says what is wrong."""
    if text.strip() == "published":
        return PUBLISHED
    known = {each.name for each in fields(Delays)}
    given: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ValueError(f"there is no delay `{name}`; there are {', '.join(sorted(known))}, or `published`")
        given[name] = seconds(value)
    return Delays(**given)
