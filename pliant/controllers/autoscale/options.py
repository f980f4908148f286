"""What whoever runs the operator has laid down for the autoscaler."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from pliant.autoscale.cooldowns import ResizeCooldowns


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleOptions:
    """How sizes are planned, and how often."""

    policy: str = "fair"
    """For jobs that choose none; empty where nobody shall be resized."""
    is_advice_only: bool = False
    """Whether sizes are told and not set, whatever jobs say."""
    period: timedelta = timedelta(seconds=5)
    """Between two plans at least, unless somebody waits."""
    max_load: float = 0.97
    """How much of all CPU and memory may be given away."""
    cooldowns: ResizeCooldowns = field(default_factory=ResizeCooldowns)
