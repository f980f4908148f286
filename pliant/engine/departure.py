"""How pods are let go: in good order, or at once where nobody is left to see them off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace as altered
from datetime import datetime, timedelta

from pliant.model.actions import DeletePod
from pliant.model.observed import ObservedPod, Seen
from pliant.model.rules import Rules

LATE = timedelta(seconds=10)
"""How much later than due a pod may be gone before people are told; nodes take their time, too."""


def is_lost(pod: ObservedPod, rules: Rules, now: datetime) -> bool:
    """Whether the node of a pod has been at fault for so long that the pod is given up."""
    return pod.fault is not None and now >= pod.fault.since + rules.node_grace


def departures(seen: Seen, pods: Iterable[ObservedPod], because: str, now: datetime) -> Iterator[DeletePod]:
    """The deletions due among some pods; one that is leaving is left alone, unless nobody is there to end it."""
    for pod in pods:
        is_stranded = is_lost(pod, seen.rules, now) and pod.fault is not None and pod.fault.is_dead
        if is_stranded or not pod.is_leaving:
            yield DeletePod(name=pod.name, uid=pod.uid, because=because, is_forced=is_stranded)


def dismissals(seen: Seen, pods: Iterable[ObservedPod], because: str, now: datetime) -> Iterator[DeletePod]:
    """The deletions due among pods that a master made, and is not to make again."""
    return (altered(each, is_for_good=True) for each in departures(seen, pods, because, now))


def patience_left(seen: Seen, now: datetime) -> timedelta | None:
    """How long until the first pod is given up with its node, or is late in leaving; None if there is none."""
    ends = [pod.fault.since + seen.rules.node_grace for pod in seen.pods if pod.fault is not None]
    ends += [pod.due + LATE for pod in seen.pods if pod.due is not None]
    return min((end - now for end in ends if end > now), default=None)


def lingering(seen: Seen, now: datetime) -> list[str]:
    """Pods that should be gone by now, and what holds them: `demo-worker-1 (finalizer example.com/hold)`."""
    late = [pod for pod in seen.pods if pod.due is not None and now >= pod.due + LATE]
    return [f"{pod.name} ({_holder(pod)})" for pod in sorted(late, key=lambda pod: pod.name)]


def _holder(pod: ObservedPod) -> str:
    if pod.finalizers:
        return f"finalizer {', '.join(pod.finalizers)}"
    return f"node {pod.node} does not confirm its end" if pod.node else "nobody says why"
