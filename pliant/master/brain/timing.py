"""The timing of the master's decisions. The fields are also options of the master and annotations of the job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainTiming:
    """All times in seconds."""

    settle_time: float = 60.0  # how long the set of workers must stay the same before their speed is used
    observation_window: float = 60.0  # how long a member is measured before it counts as overloaded or slow
    hang_timeout: float = 600.0  # how long a member that has sent a heartbeat may send no other
    growth_timeout: float = 60.0  # how long an additional worker may be pending while others run
    pending_timeout: float = 900.0  # how long any other member may be pending before its resources are reduced
    growth_backoff: float = 1800.0
    """How long to wait after additional workers could not be scheduled, before adding any again."""
    pod_appear_timeout: float = 30.0  # how long a requested pod may take to appear
    ps_handover_timeout: float = 120.0  # how long workers may take to switch to a new set of parameter servers
    ps_change_interval: float = 600.0  # minimum time between two changes of parameter servers
    usage_report_timeout: float = 60.0  # how long to wait for the first usage report of a member type
    max_replacements_per_hour: int = 3
    min_worker_gain: float = 0.2  # what one more worker must add, relative to the speed of each of the fewest workers
