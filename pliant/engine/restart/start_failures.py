"""Programs that cannot start: they end right after their start, the same way every time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from pliant.engine.context import Context
from pliant.engine.pods.replicas import Replica, ReplicaState
from pliant.engine.status.messages import NEVER_STARTED_EXIT_REASONS, failure_message
from pliant.model.messages import Message, MessageReason, message
from pliant.model.observed import ObservedPod
from pliant.model.state import GroupState, RestartCause, StartFailure

START_PERIOD: Final = timedelta(seconds=2)
"""A program that ends within this time of its start may not have started."""
MAX_START_FAILURES: Final = 3
_MAX_CAUSE_CHARS: Final = 160
_NOT_FOUND_EXIT_CODES: Final = frozenset({126, 127})
"""The codes by which a shell reports that it cannot execute or cannot find a program."""
_CAUSE_PATTERN: Final = re.compile(
    r"No module named|can't open file|cannot open shared object file|exec format error|executable file not found"
    r"|: not found$|command not found",
    re.IGNORECASE,
)


def find_start_failure(replica: Replica) -> str:
    """Return why the program of a failed replica cannot start; empty if it has started or failed in another way."""
    pod = replica.pod
    if replica.state is not ReplicaState.FAILED or replica.failure_cause is not RestartCause.APP:
        return ""
    if pod is None or pod.exit is None or not _has_ended_at_start(pod):
        return ""
    lines = [line.strip() for line in (pod.exit.last_log_lines or pod.exit.message).splitlines()]
    cause = next((line for line in reversed(lines) if _CAUSE_PATTERN.search(line)), "")
    if not cause and (pod.exit.reason in NEVER_STARTED_EXIT_REASONS or pod.exit.code in _NOT_FOUND_EXIT_CODES):
        cause = pod.exit.message or f"exit code {pod.exit.code}"
    return cause[-_MAX_CAUSE_CHARS:]


def count_start_failure(group_state: GroupState, replica: Replica, *, is_new_streak: bool) -> GroupState:
    """Count the failure of a replica that is restarted; replicas that fail in the same round count once."""
    known, cause = None if is_new_streak else group_state.start_failure, find_start_failure(replica)
    if not cause:
        has_started = replica.state is ReplicaState.FAILED and replica.pod and not _has_ended_at_start(replica.pod)
        return replace(group_state, start_failure=None if has_started else known)
    if known is None or known.cause != cause:
        return replace(group_state, start_failure=StartFailure(cause=cause, count=1, attempt=group_state.attempt))
    if replica.rank.attempt >= known.attempt:
        known = replace(known, count=known.count + 1, attempt=group_state.attempt)
    return replace(group_state, start_failure=known)


def can_never_start(context: Context, replica: Replica) -> bool:
    """Return whether further restarts of a replica are pointless; where restarts are not limited, they go on."""
    group, job = replica.rank.group, context.job
    known = context.state.group(group.name).start_failure
    if known is None or (group.restart_rule.limit is None and job.restart_limit is None):
        return False
    is_next = known.count + 1 >= MAX_START_FAILURES and replica.rank.attempt >= known.attempt
    return is_next and find_start_failure(replica) == known.cause


def start_failure_message(replica: Replica) -> Message:
    return message(MessageReason.PROGRAM_CANNOT_START, [failure_message(replica)], count=MAX_START_FAILURES)


def _has_ended_at_start(pod: ObservedPod) -> bool:
    if pod.exit is not None and pod.exit.reason in NEVER_STARTED_EXIT_REASONS:
        return True
    if pod.started_at is None or pod.finished_at is None:
        return False
    # The duration is unknown if the clock was set back meanwhile.
    return timedelta(0) <= pod.finished_at - pod.started_at <= START_PERIOD
