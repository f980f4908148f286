"""Delays of a simulated cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDelays:
    """Seconds; the defaults are those of a current cluster with images already on its nodes."""

    schedule: float = 0.1  # from the creation of a pod to its first scheduling attempt
    start: float = 3.0  # from scheduling until it runs
    terminate: float = 2.0  # from its deletion until its resources are free
    reschedule: float = 1.0  # from when resources are freed until pending pods are scheduled again
    jitter: float = 0.0  # the fraction by which each delay varies at random

    def with_jitter(self, seconds: float, random: Random) -> float:
        return seconds * (1 + self.jitter * random.uniform(-1, 1)) if self.jitter else seconds


EDL_DELAYS = SimulatedDelays(terminate=15.0, reschedule=5.0, jitter=0.5)
"""Estimated for the cluster of the EDL publication: the published autoscaler reproduces its published figures."""


def parse_delays(text: str) -> SimulatedDelays:
    """Parse `published` or `start=3,terminate=10`; raise ValueError if that fails."""
    if text.strip() == "published":
        return EDL_DELAYS
    names = {each.name for each in fields(SimulatedDelays)}
    values: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in names:
            raise ValueError(f"unknown delay `{name}`: use {', '.join(sorted(names))}, or `published`")
        values[name] = parse_duration_seconds(value)
    if values.get("jitter", 0.0) > 1.0:
        raise ValueError("jitter must be at most 1")
    return SimulatedDelays(**values)


_DURATION_PATTERN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)?", re.ASCII)
_SECONDS_PER_UNIT = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration_seconds(text: str) -> float:
    """Parse a duration in seconds from `90`, `90s`, `5m` or `1.5h`; raise ValueError if that fails."""
    match = _DURATION_PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"`{text}` is not a duration such as 90, 90s, 5m or 1.5h")
    number, unit = match.groups()
    return float(number) * _SECONDS_PER_UNIT[unit or "s"]
