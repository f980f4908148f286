"""How long the master waits for what, and how much it takes to convince it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainTiming:
    """All times in seconds."""

    settle: float = 60.0
    """How long the same workers must have run before their speed is believed."""
    look: float = 60.0
    """How long members are watched before one of them counts as hot or slow."""
    hang: float = 600.0
    """How long a member that once spoke may say nothing."""
    growth_patience: float = 60.0
    """How long a worker may wait for a machine if others run without it."""
    pending_timeout: float = 900.0
    """How long any other member may, before it is made smaller."""
    hold_off: float = 1800.0
    """After a growth that no machine took, until the next one."""
    appear: float = 30.0
    """How long a pod that was asked for may take to be seen."""
    handover: float = 120.0
    """How long workers may take to turn to a new set of parameter servers."""
    server_pause: float = 600.0
    """Between two changes of parameter servers."""
    reports: float = 60.0
    """How long to wait for a role that tells nothing of itself."""
    replacements: int = 3
    """How many slow workers are replaced within an hour."""
    worth: float = 0.2
    """What one more worker must add, as a part of what each of the fewest does."""


CPU_SATURATION_RATIO = 0.9
"""The part of its CPU that a parameter server may use before it counts as hot."""
STRAGGLER_SPEED_RATIO = 0.5
"""The part of its peers' median speed below which a worker is slow."""
STRAGGLER_MIN_WINDOWS = 2
"""For so many looks in a row."""
