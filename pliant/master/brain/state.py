"""What the brain keeps between two decisions: what must outlive its process, and what need not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from pliant.master.model import MemberKey, PodResources, SizingStage


class MemberSlot(NamedTuple):
    """A rank of a type, whoever holds it. Prints as `worker/3`."""

    type: str
    rank: int

    def __str__(self) -> str:
        return f"{self.type}/{self.rank}"


class ThroughputWindow(NamedTuple):
    """How far a worker had come when a look began, and for how many looks it has been slow."""

    started_at: datetime
    samples: float
    slow_windows: int = 0
    rate: float | None = None
    """Samples per second during the last whole look."""


class CpuUsageWindow(NamedTuple):
    """What a member has used since a look began."""

    started_at: datetime
    last_reading_at: datetime
    total_cores: float = 0.0
    readings: int = 0


class MemberProgress(NamedTuple):
    """When a member was last heard of, and when it last got further."""

    heard_at: datetime
    moved_at: datetime
    step: int | None = None
    samples: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransientObservations:
    """What was noticed since this process began; a new one begins anew, and judges nobody by its own absence."""

    started_at: datetime | None = None
    stage_since: datetime | None = None
    running_workers: frozenset[MemberKey] = frozenset()
    """The workers that run."""
    workers_unchanged_since: datetime | None = None
    observed: frozenset[MemberKey] = frozenset()
    """Everybody who was ever seen."""
    requested_at: Mapping[MemberKey, datetime] = field(default_factory=dict)
    """Who was asked for, and when."""
    throughput_windows: Mapping[MemberKey, ThroughputWindow] = field(default_factory=dict)
    cpu_windows: Mapping[MemberKey, CpuUsageWindow] = field(default_factory=dict)
    progress: Mapping[MemberKey, MemberProgress] = field(default_factory=dict)
    peak_usage: Mapping[str, PodResources] = field(default_factory=dict)
    """The most that one member of a type has used."""
    members_missing_since: datetime | None = None
    """Since when fewer members are known than the operator was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrainState:
    """What a new master must know to go on where the last one stopped."""

    stage: SizingStage = SizingStage.CREATE
    newest_ids: Mapping[str, int] = field(default_factory=dict)
    """The id of the newest member at each place, by place."""
    highest_ids: Mapping[str, int] = field(default_factory=dict)
    """The highest id of a type so far."""
    removed_members: tuple[str, ...] = ()
    """Members that were sent away and may still be seen."""
    abandoned_slots: Mapping[str, str] = field(default_factory=dict)
    """Places that are beyond recovery, and why."""
    restart_counts: Mapping[str, int] = field(default_factory=dict)
    """Relaunches of a place that count."""
    early_exit_counts: Mapping[str, int] = field(default_factory=dict)
    """Relaunches of a place that do not count, in quick succession."""
    resources_by_type: Mapping[str, PodResources] = field(default_factory=dict)
    """What new members of a type ask for."""
    latest_resources: Mapping[str, PodResources] = field(default_factory=dict)
    """What the newest member of a type was given, by whomever."""
    oom_memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes with which a member of a type was seen to run out of memory."""
    succeeded_slots: tuple[str, ...] = ()
    """Places whose work has ended well, though their pods may be gone."""
    resume_sizes: Mapping[str, int] = field(default_factory=dict)
    """How many members of each type there were when the job was suspended."""
    worker_cap: int | None = None
    """So many workers are the most that machines have taken."""
    worker_cap_until: datetime | None = None
    settled_size: int | None = None
    """The number of workers that was found to be right."""
    straggler_replaced_at: tuple[datetime, ...] = ()
    """When workers were replaced for being slow, within the last hour."""
    ps_changed_at: datetime | None = None
    ps_version: int = 0
    ps_hosts: tuple[str, ...] = ()
    observations: TransientObservations = field(default_factory=TransientObservations)

    def dump_state(self) -> dict[str, Any]:
        """What is worth keeping, as JSON knows it."""
        kept: dict[str, Any] = msgspec.to_builtins(self)
        del kept["observations"]
        return kept


def load_brain_state(state: Mapping[str, Any]) -> BrainState:
    """The memory that was saved; an empty one if it makes no sense, for the cluster tells the rest."""
    try:
        return msgspec.convert({**state, "observations": {}}, BrainState)
    except msgspec.ValidationError:
        return BrainState()
