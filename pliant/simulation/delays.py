"""How long things take on a simulated cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDelays:
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

    def with_jitter(self, seconds: float, random: Random) -> float:
        """One of these as it happens to be."""
        return seconds * (1 + self.jitter * random.uniform(-1, 1)) if self.jitter else seconds


EDL_DELAYS = SimulatedDelays(leave=15.0, retry=5.0, jitter=0.5)
"""Of the cluster on which EDL was published, as far as one can tell: the autoscaler that was published comes to
about the figures that were published, over ten runs."""


def parse_delays(text: str) -> SimulatedDelays:
    """`published`, or some of them as `start=3,leave=10`; ValueError says what is wrong."""
    if text.strip() == "published":
        return EDL_DELAYS
    known = {each.name for each in fields(SimulatedDelays)}
    given: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in known:
            raise ValueError(f"there is no delay `{name}`; there are {', '.join(sorted(known))}, or `published`")
        given[name] = parse_seconds(value)
    if given.get("jitter", 0.0) > 1.0:
        raise ValueError("jitter must not be above 1: nothing takes less than no time")
    return SimulatedDelays(**given)


_DURATION_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)?", re.ASCII)
_SECONDS_PER_UNIT = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(text: str) -> float:
    """A time or a span in seconds, from `90`, `90s`, `5m` or `1.5h`; ValueError for what is none."""
    match = _DURATION_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a time in seconds, nor one such as 90s, 5m or 1.5h")
    number, unit = match.groups()
    return float(number) * _SECONDS_PER_UNIT[unit or "s"]
