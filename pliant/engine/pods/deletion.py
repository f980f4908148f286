"""How pods are let go: in good order, or at once where nobody is left to see them off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace as altered
from datetime import datetime, timedelta

from pliant.model.actions import DeletePod
from pliant.model.observed import Observed, ObservedPod
from pliant.model.operator_config import OperatorConfig

TERMINATION_GRACE = timedelta(seconds=10)
"""How much later than due a pod may be gone before people are told; nodes take their time, too."""


def is_lost(pod: ObservedPod, config: OperatorConfig, now: datetime) -> bool:
    """Whether the node of a pod has been at fault for so long that the pod is given up."""
    return pod.node_fault is not None and now >= pod.node_fault.since + config.node_grace_period


def delete_pods(observed: Observed, pods: Iterable[ObservedPod], reason: str, now: datetime) -> Iterator[DeletePod]:
    """The deletions due among some pods; one that is leaving is left alone, unless nobody is there to end it."""
    for pod in pods:
        is_stranded = is_lost(pod, observed.config, now) and pod.node_fault is not None and pod.node_fault.is_dead
        if is_stranded or not pod.is_terminating:
            yield DeletePod(name=pod.name, uid=pod.uid, reason=reason, is_forced=is_stranded)


def delete_pods_permanently(
    observed: Observed, pods: Iterable[ObservedPod], reason: str, now: datetime
) -> Iterator[DeletePod]:
    """The deletions due among pods that a master made, and is not to make again."""
    return (altered(each, is_permanent=True) for each in delete_pods(observed, pods, reason, now))


def time_to_pod_deadline(observed: Observed, now: datetime) -> timedelta | None:
    """How long until the first pod is given up with its node, or is late in leaving; None if there is none."""
    ends = [
        pod.node_fault.since + observed.config.node_grace_period for pod in observed.pods if pod.node_fault is not None
    ]
    ends += [pod.deletion_deadline + TERMINATION_GRACE for pod in observed.pods if pod.deletion_deadline is not None]
    return min((end - now for end in ends if end > now), default=None)


def list_stuck_terminating(observed: Observed, now: datetime) -> list[str]:
    """Pods that should be gone by now, and what holds them: `demo-worker-1 (finalizer example.com/hold)`."""
    late = [
        pod
        for pod in observed.pods
        if pod.deletion_deadline is not None and now >= pod.deletion_deadline + TERMINATION_GRACE
    ]
    return [f"{pod.name} ({_termination_blocker(pod)})" for pod in sorted(late, key=lambda pod: pod.name)]


def _termination_blocker(pod: ObservedPod) -> str:
    if pod.finalizers:
        return f"finalizer {', '.join(pod.finalizers)}"
    return f"node {pod.node} does not confirm its end" if pod.node else "nobody says why"
