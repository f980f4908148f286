"""The state of the brain between two decisions: the saved part and the part that ends with the process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from pliant.master.model import MemberKey, PodResources, SizingStage


class ThroughputWindow(NamedTuple):
    """The samples of a worker when its observation window began, and for how many windows it has been slow."""

    started_at: datetime
    samples_at_start: float
    slow_window_count: int = 0
    previous_window_rate: float | None = None


class CpuUsageWindow(NamedTuple):
    """The CPU usage of a member since its observation window began."""

    started_at: datetime
    last_reading_at: datetime
    total_cores: float = 0.0
    readings: int = 0


class MemberProgress(NamedTuple):
    """When a member last reported, and when its step or samples last changed."""

    reported_at: datetime
    progressed_at: datetime
    step: int | None = None
    samples: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransientObservations:
    """What this process has observed. A new master starts without it, so members are not blamed for its absence."""

    started_at: datetime | None = None
    stage_since: datetime | None = None
    running_workers: frozenset[MemberKey] = frozenset()
    workers_unchanged_since: datetime | None = None
    observed_members: frozenset[MemberKey] = frozenset()
    requested_at: Mapping[MemberKey, datetime] = field(default_factory=dict)
    throughput_windows: Mapping[MemberKey, ThroughputWindow] = field(default_factory=dict)
    cpu_windows: Mapping[MemberKey, CpuUsageWindow] = field(default_factory=dict)
    progress_by_member: Mapping[MemberKey, MemberProgress] = field(default_factory=dict)
    peak_usage: Mapping[str, PodResources] = field(default_factory=dict)  # the highest usage of one member, by type
    members_missing_since: datetime | None = None
    """Since when fewer members are known than the operator was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainState:
    """The state that a new master loads. Slots are keyed by their printed form."""

    stage: SizingStage = SizingStage.CREATE
    newest_ids: Mapping[str, int] = field(default_factory=dict)  # the id of the newest member, by slot
    highest_ids: Mapping[str, int] = field(default_factory=dict)
    removed_members: tuple[str, ...] = ()  # members that the master removed and whose pods may still exist
    abandoned_slots: Mapping[str, str] = field(default_factory=dict)
    """Slots that are not filled again, and the reasons."""
    restart_counts: Mapping[str, int] = field(default_factory=dict)
    """Relaunches that count towards the restart limit, by slot."""
    early_exit_counts: Mapping[str, int] = field(default_factory=dict)
    """Consecutive early exits that do not count towards the restart limit, by slot."""
    resources_by_type: Mapping[str, PodResources] = field(default_factory=dict)
    latest_resources: Mapping[str, PodResources] = field(default_factory=dict)
    oom_memory: Mapping[str, int] = field(default_factory=dict)
    """The largest memory with which a member of a type ran out of memory."""
    succeeded_slots: tuple[str, ...] = ()
    resume_sizes: Mapping[str, int] = field(default_factory=dict)
    worker_cap: int | None = None  # the largest number of workers that could be scheduled
    worker_cap_until: datetime | None = None
    settled_size: int | None = None
    straggler_replaced_at: tuple[datetime, ...] = ()  # replacements of slow workers within the last hour
    ps_changed_at: datetime | None = None
    ps_version: int = 0
    ps_hosts: tuple[str, ...] = ()
    observations: TransientObservations = field(default_factory=TransientObservations)

    def dump_state(self) -> dict[str, Any]:
        state: dict[str, Any] = msgspec.to_builtins(self)
        del state["observations"]
        return state


def align_to_clock_jump(state: BrainState, jump: timedelta) -> BrainState:
    """Return the state after the clock jumped; as after a restart of the master, nobody is blamed for that time."""
    until, changed = state.worker_cap_until, state.ps_changed_at
    return replace(
        state,
        worker_cap_until=until + jump if until is not None else None,
        straggler_replaced_at=tuple(at + jump for at in state.straggler_replaced_at),
        ps_changed_at=changed + jump if changed is not None else None,
        observations=TransientObservations(),
    )


def load_brain_state(state: Mapping[str, Any]) -> BrainState:
    """Load a saved state; return an empty one if it is invalid, because the cluster shows the rest."""
    try:
        return msgspec.convert({**state, "observations": {}}, BrainState)
    except msgspec.ValidationError:
        return BrainState()
