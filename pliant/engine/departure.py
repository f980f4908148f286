"""How pods are let go: in good order, or at once where nobody is left to see them off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from pliant.model.actions import DeletePod
from pliant.model.observed import ObservedPod, Seen
from pliant.model.rules import Rules


def is_lost(pod: ObservedPod, rules: Rules, now: datetime) -> bool:
    """Whether the node of a pod has been at fault for so long that the pod is given up."""
    return pod.fault is not None and now >= pod.fault.since + rules.node_grace


def departures(seen: Seen, pods: Iterable[ObservedPod], because: str, now: datetime) -> Iterator[DeletePod]:
    """The deletions due among some pods; one that is leaving is left alone, unless nobody is there to end it."""
    for pod in pods:
        is_stranded = is_lost(pod, seen.rules, now) and pod.fault is not None and pod.fault.is_dead
        if is_stranded or not pod.is_leaving:
            yield DeletePod(name=pod.name, uid=pod.uid, because=because, is_forced=is_stranded)


def patience_left(seen: Seen, now: datetime) -> timedelta | None:
    """How long until the first pod whose node is at fault will be given up; None if there is none to wait for."""
    ends = [pod.fault.since + seen.rules.node_grace for pod in seen.pods if pod.fault is not None]
    return min((end - now for end in ends if end > now), default=None)
