"""Deletion of pods: gracefully, or with grace period 0 if the node is dead."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from pliant.model.actions import DeletePod, PodDeletionReason
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import Observed, ObservedPod
from pliant.model.operator_config import OperatorConfig

STUCK_POD_REPORT_DELAY = timedelta(seconds=10)
"""How long after its deletion deadline a pod is reported as stuck."""


def is_lost(pod: ObservedPod, config: OperatorConfig, now: datetime) -> bool:
    """Return whether the node of the pod has been faulty for longer than the grace period."""
    return pod.node_fault is not None and now >= pod.node_fault.since + config.node_grace_period


def delete_pods(
    pods: Iterable[ObservedPod], reason: PodDeletionReason, config: OperatorConfig, now: datetime
) -> Iterator[DeletePod]:
    """Yield deletions of the pods that are not terminating, and forced deletions of those on dead nodes."""
    for pod in pods:
        is_forced = is_lost(pod, config, now) and pod.node_fault is not None and pod.node_fault.is_dead
        if is_forced or not pod.is_terminating:
            yield DeletePod(name=pod.name, uid=pod.uid, reason=reason, is_forced=is_forced)


def delete_pods_without_relaunch(
    pods: Iterable[ObservedPod], reason: PodDeletionReason, config: OperatorConfig, now: datetime
) -> Iterator[DeletePod]:
    """Yield the same deletions for pods that the job's master must not recreate."""
    return (dataclasses.replace(each, prevents_relaunch=True) for each in delete_pods(pods, reason, config, now))


def time_to_lost_or_stuck_pod(observed: Observed, config: OperatorConfig, now: datetime) -> timedelta | None:
    """Return the time until the next pod counts as lost or as stuck terminating; None if there is none."""
    pods, grace = observed.pods, config.node_grace_period
    times = [pod.node_fault.since + grace for pod in pods if pod.node_fault is not None]
    times += [pod.deletion_deadline + STUCK_POD_REPORT_DELAY for pod in pods if pod.deletion_deadline is not None]
    return min((time - now for time in times if time > now), default=None)


def list_stuck_terminating_pods(observed: Observed, now: datetime) -> list[Message]:
    """Return the pods that should be gone, and what blocks them."""
    deadline = now - STUCK_POD_REPORT_DELAY
    stuck = [pod for pod in observed.pods if pod.deletion_deadline is not None and pod.deletion_deadline <= deadline]
    return [_termination_blocker(pod) for pod in sorted(stuck, key=lambda pod: pod.name)]


def _termination_blocker(pod: ObservedPod) -> Message:
    if pod.finalizers:
        return message(MessageReason.BLOCKED_BY_FINALIZER, pod=pod.name, finalizers=", ".join(pod.finalizers))
    if pod.node:
        return message(MessageReason.BLOCKED_BY_NODE, pod=pod.name, node=pod.node)
    return message(MessageReason.BLOCKED, pod=pod.name)
