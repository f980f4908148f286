"""The sizes of the ReplicaSets of a Deployment during a rollout; pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

from pliant.embedded.controllers.workloads.views import Deployment, ReplicaSet, parse_number

DESIRED_REPLICAS_ANNOTATION = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS_ANNOTATION = "deployment.kubernetes.io/max-replicas"
_BEGINNING = datetime.min.replace(tzinfo=UTC)

Sizes = dict[str, int]
"""Replicas by the name of a ReplicaSet."""


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def max_surge(deployment: Deployment) -> int:
    return _resolve_limits(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    return min(_resolve_limits(deployment)[1], deployment.spec.replicas)


def _resolve_limits(deployment: Deployment) -> tuple[int, int]:
    """Return the surge, rounded up, and the number of unavailable pods, rounded down; not both are 0."""
    if not is_rolling(deployment):
        return 0, 0
    update, replicas = deployment.spec.strategy.rolling_update, deployment.spec.replicas
    surge = math.ceil(_resolve(update.get("maxSurge", "25%"), replicas))
    unavailable = math.floor(_resolve(update.get("maxUnavailable", "25%"), replicas))
    return surge, unavailable if surge or unavailable else 1


def _resolve(value: int | str, total: int) -> float:
    return value if isinstance(value, int) else int(value.removesuffix("%")) * total / 100


def total_size(replica_sets: Sequence[ReplicaSet]) -> int:
    return sum(each.spec.replicas for each in replica_sets)


def total_available(replica_sets: Sequence[ReplicaSet]) -> int:
    return sum(each.available_replicas for each in replica_sets)


def created_at(replica_set: ReplicaSet) -> tuple[datetime, str]:
    return replica_set.metadata.creation_timestamp or _BEGINNING, replica_set.metadata.name


def is_scaled(deployment: Deployment, replica_sets: Sequence[ReplicaSet]) -> bool:
    """Return whether the user has scaled a Deployment since the sizes of its ReplicaSets were chosen."""
    desired = [
        each.metadata.annotations.get(DESIRED_REPLICAS_ANNOTATION) for each in replica_sets if each.spec.replicas > 0
    ]
    return any(value is not None and value != str(deployment.spec.replicas) for value in desired)


def plan_new_size(deployment: Deployment, old: Sequence[ReplicaSet], current: int) -> int:
    """Return the size of the new ReplicaSet, which has `current` replicas now."""
    replicas = deployment.spec.replicas
    if not is_rolling(deployment) or current >= replicas:
        return replicas
    free = replicas + max_surge(deployment) - total_size(old) - current
    return current + min(max(free, 0), replicas - current)


def plan_old_sizes(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes of the old ReplicaSets that may shrink now: unavailable pods first, then the oldest."""
    active = sorted((each for each in old if each.spec.replicas > 0), key=created_at)
    sizes = {each.metadata.name: each.spec.replicas for each in active}
    if not is_rolling(deployment):
        return dict.fromkeys(sizes, 0)
    min_available = deployment.spec.replicas - max_unavailable(deployment)
    removable = total_size(active) + new.spec.replicas - min_available
    removable -= new.spec.replicas - new.available_replicas
    for each in active if removable > 0 else ():
        unavailable = min(max(each.spec.replicas - each.available_replicas, 0), removable)
        sizes[each.metadata.name] -= unavailable
        removable -= unavailable
    spare = total_available([*active, new]) - min_available if removable > 0 else 0
    for each in active:
        removed = min(max(spare, 0), sizes[each.metadata.name])
        sizes[each.metadata.name] -= removed
        spare -= removed
    return sizes


def plan_proportional_sizes(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> Sizes:
    """Return the sizes after a Deployment was scaled during a rollout, or while it is paused."""
    replicas = deployment.spec.replicas
    replica_sets = [*old, *([new] if new is not None else ())]
    active = [each for each in replica_sets if each.spec.replicas > 0]
    if len(active) <= 1:
        newest = new if new is not None else max(old, key=created_at, default=None)
        only = active[0] if active else newest
        return {} if only is None else {only.metadata.name: replicas}
    if new is not None and new.spec.replicas == new.available_replicas == replicas:
        return {each.metadata.name: 0 for each in active if each is not new}
    if not is_rolling(deployment):
        return {}
    return _distribute(active, (replicas + max_surge(deployment) if replicas else 0), deployment)


def _distribute(active: list[ReplicaSet], allowed: int, deployment: Deployment) -> Sizes:
    """Distribute a total in proportion to the present sizes; the largest ReplicaSet gets what remains."""
    to_add = allowed - total_size(active)
    by_age = sorted(active, key=created_at, reverse=to_add > 0)
    ordered = sorted(by_age, key=lambda each: -each.spec.replicas)
    sizes, added = {each.metadata.name: each.spec.replicas for each in ordered}, 0
    for each in ordered if to_add else ():
        base = parse_number(each.metadata.annotations.get(MAX_REPLICAS_ANNOTATION, "")) or allowed - to_add
        grown = each.spec.replicas * (deployment.spec.replicas + max_surge(deployment)) / base
        fraction = math.floor(grown + 0.5) - each.spec.replicas
        rest = to_add - added
        share = min(fraction, rest) if to_add > 0 else max(fraction, rest)
        sizes[each.metadata.name] += share
        added += share
    largest = ordered[0].metadata.name
    sizes[largest] = max(sizes[largest] + to_add - added, 0)
    return sizes
