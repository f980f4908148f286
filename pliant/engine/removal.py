"""Which replicas a smaller group loses: those whose loss costs least, and never the first one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from pliant.engine.pods.replicas import Replica, ReplicaState

_USEFUL_STATES = (ReplicaState.RUNNING, ReplicaState.SUCCEEDED)


def skipped_after_resize(
    replicas: Sequence[Replica], skipped: tuple[int, ...], size: int, now: datetime
) -> tuple[int, ...]:
    """Return the indexes that no replica has after a resize to `size`; new replicas get the lowest of them first."""
    added = size - len(replicas)
    if added >= 0:
        return tuple(sorted(skipped)[added:])
    removed = {replica.rank.index for replica in sorted(replicas, key=lambda each: _removal_order(each, now))[:-added]}
    kept = {replica.rank.index for replica in replicas} - removed
    return tuple(index for index in range(max(kept, default=0)) if index not in kept)


def _removal_order(replica: Replica, now: datetime) -> tuple[object, ...]:
    """Return the sort key that puts the replicas to remove first.

    Replica 0 comes last, because it may host the rendezvous. Then the annotation of the user decides, then whether the
    replica runs, whether its node is faulty, drained or reclaimed soon, and its age; of equal ones the highest index.
    """
    pod, index, is_useful = replica.pod, replica.rank.index, replica.state in _USEFUL_STATES
    if pod is None:
        return (index == 0, 0, is_useful, True, True, 0, -index)
    has_good_node = pod.node_fault is None and not pod.is_node_draining
    age = _age_magnitude(pod.started_at, now)
    return (index == 0, pod.deletion_cost, is_useful, has_good_node, not pod.is_on_spot_node, age, -index)


def _age_magnitude(started_at: datetime | None, now: datetime) -> int:
    """Return the binary logarithm of the age in minutes: replicas that started at about the same time are equal."""
    minutes = (now - started_at).total_seconds() / 60 if started_at is not None else 0.0
    return int(math.log2(minutes)) if minutes >= 2 else 0
