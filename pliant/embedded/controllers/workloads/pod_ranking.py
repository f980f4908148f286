"""The order in which a ReplicaSet deletes pods when it is scaled down."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pliant.embedded.controllers.workloads.views import ready_since
from pliant.kube.objects import Pod

DELETION_COST_ANNOTATION = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}
_BEGINNING = datetime.min.replace(tzinfo=UTC)


def order_for_deletion(pods: list[Pod]) -> list[Pod]:
    """Return pods with those to delete first: without node, pending, not ready, of low cost, restarted, young."""
    return sorted(pods, key=_deletion_key)


def _deletion_key(pod: Pod) -> tuple[Any, ...]:
    since = ready_since(pod)
    return (
        bool(pod.spec.node_name),
        _PHASE_ORDER.get(pod.status.phase, 1),
        since is not None,
        _deletion_cost(pod),
        -(since or _BEGINNING).timestamp() if since is not None else 0.0,
        -max((each.restart_count for each in pod.status.container_statuses), default=0),
        -(pod.metadata.creation_timestamp or _BEGINNING).timestamp() if pod.metadata.creation_timestamp else 0.0,
        pod.metadata.name,
    )


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST_ANNOTATION, "0"))
    except ValueError:
        return 0
