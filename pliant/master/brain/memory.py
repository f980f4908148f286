"""What the brain keeps between two decisions: what must outlive its process, and what need not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from pliant.master.model import NodeKey, Resources, Stage


class Place(NamedTuple):
    """A rank of a type, whoever holds it. Prints as `worker/3`."""

    type: str
    rank: int

    def __str__(self) -> str:
        return f"{self.type}/{self.rank}"


class Mark(NamedTuple):
    """How far a worker had come when a look began, and for how many looks it has been slow."""

    at: datetime
    samples: float
    slow: int = 0
    rate: float | None = None
    """Samples per second during the last whole look."""


class Meter(NamedTuple):
    """What a member has used since a look began."""

    since: datetime
    last: datetime
    total: float = 0.0
    readings: int = 0


class Progress(NamedTuple):
    """When a member was last heard of, and when it last got further."""

    heard_at: datetime
    moved_at: datetime
    step: int | None = None
    samples: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Impressions:
    """What was noticed since this process began; a new one begins anew, and judges nobody by its own absence."""

    woke_at: datetime | None = None
    stage_since: datetime | None = None
    crew: frozenset[NodeKey] = frozenset()
    """The workers that run."""
    crew_since: datetime | None = None
    seen: frozenset[NodeKey] = frozenset()
    """Everybody who was ever seen."""
    asked: Mapping[NodeKey, datetime] = field(default_factory=dict)
    """Who was asked for, and when."""
    marks: Mapping[NodeKey, Mark] = field(default_factory=dict)
    meters: Mapping[NodeKey, Meter] = field(default_factory=dict)
    progress: Mapping[NodeKey, Progress] = field(default_factory=dict)
    peaks: Mapping[str, Resources] = field(default_factory=dict)
    """The most that one member of a type has used."""
    short_since: datetime | None = None
    """Since when fewer members are known than the operator was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a new master must know to go on where the last one stopped."""

    stage: Stage = Stage.CREATE
    members: Mapping[str, int] = field(default_factory=dict)
    """The id of the newest member at each place, by place."""
    ids: Mapping[str, int] = field(default_factory=dict)
    """The highest id of a type so far."""
    dismissed: tuple[str, ...] = ()
    """Members that were sent away and may still be seen."""
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Places that are beyond recovery, and why."""
    charges: Mapping[str, int] = field(default_factory=dict)
    """Relaunches of a place that count."""
    falls: Mapping[str, int] = field(default_factory=dict)
    """Relaunches of a place that do not count, in quick succession."""
    shapes: Mapping[str, Resources] = field(default_factory=dict)
    """What new members of a type ask for."""
    latest: Mapping[str, Resources] = field(default_factory=dict)
    """What the newest member of a type was given, by whomever."""
    too_small: Mapping[str, int] = field(default_factory=dict)
    """Bytes with which a member of a type was seen to run out of memory."""
    done: tuple[str, ...] = ()
    """Places whose work has ended well, though their pods may be gone."""
    resumes: Mapping[str, int] = field(default_factory=dict)
    """How many members of each type there were when the job was suspended."""
    cap: int | None = None
    """So many workers are the most that machines have taken."""
    cap_until: datetime | None = None
    rested: int | None = None
    """The number of workers that was found to be right."""
    replaced: tuple[datetime, ...] = ()
    """When workers were replaced for being slow, within the last hour."""
    servers_changed_at: datetime | None = None
    ps_version: int = 0
    ps_hosts: tuple[str, ...] = ()
    impressions: Impressions = field(default_factory=Impressions)

    def saved(self) -> dict[str, Any]:
        """What is worth keeping, as JSON knows it."""
        kept: dict[str, Any] = msgspec.to_builtins(self)
        del kept["impressions"]
        return kept


def remembered(saved: Mapping[str, Any]) -> Memory:
    """The memory that was saved; an empty one if it makes no sense, for the cluster tells the rest."""
    try:
        return msgspec.convert({**saved, "impressions": {}}, Memory)
    except msgspec.ValidationError:
        return Memory()
