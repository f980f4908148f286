"""English descriptions of replica failures for statuses, events and timelines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.observed import PodExit

MAX_LISTED_NAMES = 3
ALL_RUNNING_MESSAGE = "all replicas are running"
NEVER_STARTED_EXIT_REASONS = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers whose program never ran: the exit code is not that of the program."""


def describe_exit(pod_exit: PodExit | None) -> str:
    """Describe how a pod terminated: `exited with code 3`, `was killed by SIGKILL (exit code 137)`."""
    if pod_exit is None:
        return "failed"
    code, reason = pod_exit.code, pod_exit.reason
    if code is None:
        text = f"failed: {reason}" if reason else "failed"
    elif reason in NEVER_STARTED_EXIT_REASONS:
        text = f"could not be started ({reason})"
    elif reason == "OOMKilled":
        text = f"ran out of memory (OOMKilled, exit code {code})"
    elif pod_exit.signal:
        text = f"was killed by {pod_exit.signal} (exit code {code})"
    else:
        text = f"exited with code {code}"
    return f"{text}: {pod_exit.message}" if pod_exit.message else text


def describe_failure(replica: Replica) -> str:
    """Describe which replica failed and how: `worker-1 exited with code 3`."""
    pod = replica.pod
    if pod is None:
        return f"{replica.display_name} failed"
    if replica.state is ReplicaState.TERMINATING:
        return f"{replica.display_name} was deleted"
    if replica.state is ReplicaState.DISRUPTED:
        return f"{replica.display_name} {pod.disruption}"
    if pod.stuck_container is not None and replica.state is ReplicaState.SCHEDULED:
        return f"{pod.name} on {pod.node} cannot create container {pod.stuck_container.container}: {pod.start_problem}"
    if pod.node_fault is None:
        return f"{replica.display_name} {describe_exit(pod.exit)}"
    if replica.state is ReplicaState.LOST:
        return f"{replica.display_name} was lost: node {pod.node} {pod.node_fault.description}"
    return f"{replica.display_name} {describe_exit(pod.exit)} on node {pod.node}, which {pod.node_fault.description}"


def describe_start_problems(replicas: Iterable[Replica]) -> list[str]:
    return [
        f"{each.display_name}: {each.pod.start_problem}" for each in replicas if each.pod and each.pod.start_problem
    ]


def summarize_names(names: Sequence[str]) -> str:
    """Join the first names: `a, b, c and 4 more`."""
    shown = ", ".join(names[:MAX_LISTED_NAMES])
    return f"{shown} and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else shown


def pluralize(number: int, noun: str) -> str:
    """Return `1 pod`, `2 pods` or `2 ps`."""
    return f"{number} {noun}" if number == 1 or noun.endswith("s") else f"{number} {noun}s"
