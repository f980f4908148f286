"""How long things take on a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

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
    jitter: float = 0.0
    """The part of each by which it is longer or shorter, by chance."""

    def drawn(self, seconds: float, random: Random) -> float:
        """One of these as it happens to be."""
        return seconds * (1 + self.jitter * random.uniform(-1, 1)) if self.jitter else seconds


PUBLISHED = Delays(leave=15.0, retry=5.0, jitter=0.5)
"""Of the cluster on which EDL was published, as far as one can tell: the autoscaler that was published comes to
about the figures that were published, over ten runs."""


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
    if given.get("jitter", 0.0) > 1.0:
        raise ValueError("jitter must not be above 1: nothing takes less than no time")
    return Delays(**given)
