"""The sentences people read in statuses, events and timelines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.observed import PodExit

MAX_LISTED_NAMES = 3
START_ERROR_REASONS = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers whose program never ran, so that its exit code is not its own."""


def describe_exit(pod_exit: PodExit | None) -> str:
    """How a member ended: `exited with code 3`, `was killed by SIGKILL (exit code 137)`."""
    if pod_exit is None:
        return "failed"
    if pod_exit.code is None:
        return _with_detail(f"failed: {pod_exit.reason}" if pod_exit.reason else "failed", pod_exit.message)
    said = f"exited with code {pod_exit.code}"
    if pod_exit.reason in START_ERROR_REASONS:
        said = f"could not be started ({pod_exit.reason})"
    elif pod_exit.reason == "OOMKilled":
        said = f"ran out of memory (OOMKilled, exit code {pod_exit.code})"
    elif pod_exit.signal:
        said = f"was killed by {pod_exit.signal} (exit code {pod_exit.code})"
    return _with_detail(said, pod_exit.message)


def describe_failure(replica: Replica) -> str:
    """Which member is in trouble and how: `worker-1 exited with code 3`."""
    pod = replica.pod
    if pod is None:
        return f"{replica.display_name} failed"
    if replica.state is ReplicaState.TERMINATING:
        return f"{replica.display_name} was deleted"
    if replica.state is ReplicaState.DISRUPTED:
        return f"{replica.display_name} {pod.disruption}"
    if pod.stuck_container is not None and replica.state is ReplicaState.SCHEDULED:
        return f"{pod.name} on {pod.node} cannot create container {pod.stuck_container.container}: {pod.problem}"
    if pod.node_fault is None:
        return f"{replica.display_name} {describe_exit(pod.exit)}"
    if replica.state is ReplicaState.LOST:
        return f"{replica.display_name} was lost: node {pod.node} {pod.node_fault.description}"
    return f"{replica.display_name} {describe_exit(pod.exit)} on node {pod.node}, which {pod.node_fault.description}"


def join_names(names: Sequence[str]) -> str:
    """A short enumeration: `a, b, c and 4 more`."""
    shown = ", ".join(names[:MAX_LISTED_NAMES])
    return f"{shown} and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else shown


def describe_problems(replicas: Iterable[Replica]) -> list[str]:
    """Why members do not start, one sentence each."""
    return [f"{place.display_name}: {place.pod.problem}" for place in replicas if place.pod and place.pod.problem]


def pluralize(number: int, noun: str) -> str:
    """`1 member`, `2 members`, `2 ps`."""
    return f"{number} {noun}" if number == 1 or noun.endswith("s") else f"{number} {noun}s"


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
