"""Departures: replicas that may save their state before they are deleted; and the membership that replicas learn of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

_Timestamp = Annotated[datetime, Meta(tz=True)]


class DepartureReason(StrEnum):
    """Why a replica is asked to save its state; part of the API."""

    RESIZED = "Resized"
    SUSPENDED = "Suspended"
    PREEMPTED = "Preempted"
    REPLACED = "Replaced"
    NODE_DRAINING = "NodeDraining"
    """The node is cordoned or has a taint that evicts the pod; the operator itself does not delete the pod."""


KEPT_REASONS = frozenset({DepartureReason.NODE_DRAINING})
"""Reasons for which the operator asks for a checkpoint and deletes nothing."""


class Departure(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A request to a replica to save its state, before the pod is deleted or its node is drained."""

    request: int
    """The number of the checkpoint request; replicas that leave together have the same one."""
    reason: DepartureReason
    group: str
    index: int
    at: _Timestamp
    deadline: _Timestamp
    acknowledged_at: _Timestamp | None = None


class DepartureBatch(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The departures that differ only in their pods, as they are stored: thousands of replicas may leave together."""

    request: int
    reason: DepartureReason
    group: str
    at: _Timestamp
    deadline: _Timestamp
    acknowledged_at: _Timestamp | None = None
    pods: dict[str, int]
    """The index of each replica by the UID of its pod."""


def batch_departures(departures: Mapping[str, Departure]) -> list[DepartureBatch]:
    batches: dict[Departure, dict[str, int]] = {}
    for uid, departure in departures.items():
        batches.setdefault(replace(departure, index=0), {})[uid] = departure.index
    return [
        DepartureBatch(
            request=common.request,
            reason=common.reason,
            group=common.group,
            at=common.at,
            deadline=common.deadline,
            acknowledged_at=common.acknowledged_at,
            pods=pods,
        )
        for common, pods in batches.items()
    ]


def split_batches(batches: Iterable[DepartureBatch]) -> dict[str, Departure]:
    """Return the departures by the UID of their pod."""
    return {
        uid: Departure(
            request=batch.request,
            reason=batch.reason,
            group=batch.group,
            index=index,
            at=batch.at,
            deadline=batch.deadline,
            acknowledged_at=batch.acknowledged_at,
        )
        for batch in batches
        for uid, index in batch.pods.items()
    }


class PublishedMembership(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The replicas that take part in the training, as the replicas themselves learn it."""

    generation: int = 0
    """Increases with every change."""
    indexes: dict[str, str] = {}
    """The indexes of the members of each group as ranges: `0-2,5`."""
    attempts: dict[str, int] = {}
    """The latest attempt of the members of each group: a member that was replaced is another one."""
    file_generation: int = 0
    """The generation in the ConfigMap of the job, if it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMember:
    """A replica that takes part in the training, as its peers see it."""

    name: str
    """`worker-0`"""
    group: str
    index: int
    rank: int
    address: str
    """The DNS name of the replica, with the namespace."""


def format_indexes(indexes: Iterable[int]) -> str:
    """Return the indexes as ranges: `0-2,5`. Labels of foreign pods may contain negative ones, which are left out."""
    ordered = sorted({each for each in indexes if each >= 0})
    starts = [each for before, each in pairwise([-2, *ordered]) if each != before + 1]
    ends = [each for each, after in pairwise([*ordered, -2]) if after != each + 1]
    pairs = zip(starts, ends, strict=True)
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in pairs)


def parse_indexes(ranges: str) -> Iterator[int]:
    """Yield the indexes of ranges that `format_indexes` has written."""
    for part in filter(None, ranges.split(",")):
        start, _, end = part.partition("-")
        yield from range(int(start), int(end or start) + 1)
