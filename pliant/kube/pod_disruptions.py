"""Pods that ended because of their node or the cluster, not because of their program."""

from __future__ import annotations

from typing import NamedTuple

from pliant.kube.objects import Pod

_NODE_SHUTDOWN = "was terminated by the shutdown of its node"
_NODE_RESTART = "ended with its node, which restarted"
_DESCRIPTIONS = {
    "Evicted": "was evicted",
    "Preempting": "was preempted",
    "NodeShutdown": _NODE_SHUTDOWN,
    "Terminated": _NODE_SHUTDOWN,
    "Shutdown": _NODE_SHUTDOWN,
    "NodeRestarted": _NODE_RESTART,
}
"""Reasons of failed pods that kubelets report."""
_VANISHED_CONTAINER_REASONS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of containers that a runtime or a kubelet no longer found, for example after a reboot."""


class Disruption(NamedTuple):
    description: str
    """`was evicted: The node was low on memory.`"""
    is_by_node: bool
    """Whether the node was shut down or restarted, so that all its pods ended."""


def has_disruption_reason(pod: Pod) -> bool:
    """Return whether the kubelet says that it ended the pod; the exit codes of its containers mean nothing then."""
    return pod.status.phase == "Failed" and pod.status.reason in _DESCRIPTIONS


def find_disruption(pod: Pod) -> Disruption | None:
    """Return how the cluster ended a failed pod; None if the pod failed by itself."""
    status = pod.status
    description = _DESCRIPTIONS.get(status.reason, "")
    if not description and not status.reason and _has_vanished_container(pod):
        description = _NODE_RESTART
    if not description and any(each.type == "DisruptionTarget" and each.status == "True" for each in status.conditions):
        description = "was disrupted by the cluster"
    if not description:
        return None
    text = f"{description}: {status.message}" if status.message else description
    return Disruption(text, description in (_NODE_SHUTDOWN, _NODE_RESTART))


def _has_vanished_container(pod: Pod) -> bool:
    terminated = (each.state.terminated for each in pod.status.container_statuses)
    return any(each is not None and each.reason in _VANISHED_CONTAINER_REASONS for each in terminated)
