"""How long things take on a simulated cluster."""

from __future__ import annotations

from dataclasses import dataclass


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
