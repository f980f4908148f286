"""The options of the autoscaler."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from pliant.autoscale.cooldowns import ResizeCooldowns


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscaleOptions:
    policy: str = "fair"  # for jobs without a policy of their own; empty if the autoscaler is disabled
    is_advice_only: bool = False  # whether sizes are only recommended, whatever jobs say
    period: timedelta = timedelta(seconds=5)  # the minimum interval between two plans unless pods are pending
    max_load: float = 0.97  # the fraction of total CPU and memory that may be allocated
    cooldowns: ResizeCooldowns = field(default_factory=ResizeCooldowns)
