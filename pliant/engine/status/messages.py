"""Messages about replicas: how they failed, and why they do not start."""

from __future__ import annotations

from collections.abc import Iterable

from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.model.english import render_exit
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import PodExit

NEVER_STARTED_EXIT_REASONS = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of containers whose program never ran: the exit code is not that of the program."""


def describe_exit(pod_exit: PodExit | None) -> str:
    """Describe how a pod terminated: `exited with code 3`, `was killed by SIGKILL (exit code 137)`."""
    return render_exit(exit_message(pod_exit))


def exit_message(pod_exit: PodExit | None, **parameters: str | None) -> Message:
    """Return the message about the exit of a pod; `parameters` name the replica and its node."""
    if pod_exit is None:
        return message(MessageReason.REPLICA_FAILED, **parameters)
    parameters["message"] = pod_exit.message or None
    code, reason = pod_exit.code, pod_exit.reason
    if code is None:
        return message(MessageReason.REPLICA_FAILED, cause=reason or None, **parameters)
    if reason in NEVER_STARTED_EXIT_REASONS:
        return message(MessageReason.REPLICA_NOT_STARTED, code=code, cause=reason, **parameters)
    if reason == "OOMKilled":
        return message(MessageReason.REPLICA_OUT_OF_MEMORY, code=code, **parameters)
    if pod_exit.signal:
        return message(MessageReason.REPLICA_KILLED, code=code, signal=pod_exit.signal, **parameters)
    return message(MessageReason.REPLICA_EXITED, code=code, **parameters)


def failure_message(replica: Replica) -> Message:
    """Return the message about the failure of a replica."""
    pod, name = replica.pod, replica.display_name
    if pod is None:
        return message(MessageReason.REPLICA_FAILED, replica=name)
    if replica.state is ReplicaState.TERMINATING:
        return message(MessageReason.REPLICA_DELETED, replica=name)
    if replica.state is ReplicaState.DISRUPTED:
        return message(MessageReason.REPLICA_DISRUPTED, replica=name, disruption=pod.disruption)
    if pod.stuck_container is not None and replica.state is ReplicaState.SCHEDULED:
        return message(
            MessageReason.CONTAINER_NOT_CREATED,
            pod=pod.name,
            node=pod.node,
            container=pod.stuck_container.container,
            problem=pod.start_problem,
        )
    if pod.start_problem and not replica.state.has_started and pod.node_fault is None:
        return message(MessageReason.REPLICA_NOT_STARTING, replica=name, problem=pod.start_problem)
    if pod.node_fault is None:
        return exit_message(pod.exit, replica=name)
    if replica.state is ReplicaState.LOST:
        return message(MessageReason.REPLICA_LOST, replica=name, node=pod.node, fault=pod.node_fault.description)
    return exit_message(pod.exit, replica=name, node=pod.node, fault=pod.node_fault.description)


def start_problems(replicas: Iterable[Replica]) -> list[Message]:
    """Return why replicas do not start, the first problem in time first."""
    pods = [(each.display_name, each.pod) for each in replicas if each.pod and each.pod.start_problem]
    pods.sort(key=lambda named: str(named[1].start_problem_since or "~"))
    return [message(MessageReason.REPLICA_NOT_STARTING, replica=name, problem=pod.start_problem) for name, pod in pods]
