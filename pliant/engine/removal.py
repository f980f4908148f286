"""Which replicas a smaller group loses: those whose loss costs least, and never the first one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pliant.engine.pods.replicas import Replica

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def skipped_after_resize(replicas: Sequence[Replica], skipped: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the indexes that no replica has after a resize to `size`; new replicas get the lowest of them first."""
    added = size - len(replicas)
    if added >= 0:
        return tuple(sorted(skipped)[added:])
    removed = {replica.rank.index for replica in sorted(replicas, key=_removal_order)[:-added]}
    kept = {replica.rank.index for replica in replicas} - removed
    return tuple(index for index in range(max(kept, default=0)) if index not in kept)


def _removal_order(replica: Replica) -> tuple[object, ...]:
    """Return the sort key that puts the replicas to remove first.

    Replica 0 comes last, because it may host the rendezvous. Then the annotation of the user decides, then whether the
    replica runs, whether its node is faulty, drained or reclaimed soon, and its age; of equal ones the highest index.
    """
    pod = replica.pod
    if pod is None:
        return (replica.rank.index == 0, 0, 0, 0, 0, 0.0, -replica.rank.index)
    has_bad_node = pod.node_fault is not None or pod.is_node_draining
    age_order = -((pod.started_at or _BEFORE_ALL) - _BEFORE_ALL).total_seconds()
    order = (not has_bad_node, not pod.is_on_spot_node, age_order)
    return (replica.rank.index == 0, pod.deletion_cost, replica.state.has_started, *order, -replica.rank.index)
