"""The messages of jobs as data: those in statuses and events, and those that tests expect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pliant.controllers.events import MESSAGE_ANNOTATION
from pliant.model.messages import NO_MESSAGE, Message, MessageReason, message
from pliant.model.state import TimelineEntry

ALL_RUNNING = message(MessageReason.ALL_REPLICAS_RUNNING)
COMPLETED = message(MessageReason.TRAINING_COMPLETED)


def message_in(status: Mapping[str, Any]) -> Message:
    """The message of a job whose status this is; empty if there is none yet."""
    raw = (status.get("pliant") or {}).get("message")
    return msgspec.convert(raw, Message) if raw else NO_MESSAGE


def timeline_in(status: Mapping[str, Any]) -> list[TimelineEntry]:
    """All that happened to a job, as its status tells, the oldest first."""
    return msgspec.convert((status.get("pliant") or {}).get("timeline") or [], list[TimelineEntry])


def message_of(event: Mapping[str, Any]) -> Message:
    """The message of an event; empty if it is not one of Pliant's."""
    raw = (event["metadata"].get("annotations") or {}).get(MESSAGE_ANNOTATION)
    return msgspec.json.decode(raw, type=Message) if raw else NO_MESSAGE


def text_of(told: Message, name: str = "message") -> str:
    """A parameter that is a text of somebody else: an error of the server, a problem of the kubelet."""
    return str(told.parameters.get(name, ""))


def start_problems(told: Message) -> dict[str, str]:
    """The replicas that do not start, and why."""
    found = [each for each in told.details if each.reason == MessageReason.REPLICA_NOT_STARTING]
    return {text_of(each, "replica"): text_of(each, "problem") for each in found}


def create_errors(told: Message) -> dict[str, str]:
    """The objects that cannot be created, and why."""
    found = [each for each in told.details if each.reason == MessageReason.FAILED_CREATE]
    return {text_of(each, "object"): text_of(each, "error") for each in found}


def name_conflict(told: Message) -> tuple[str, str]:
    """The object whose name the job cannot have, and why; empty if there is none."""
    if told.reason != MessageReason.NAME_CONFLICT:
        return "", ""
    return text_of(told, "object"), text_of(told, "problem")


def exited(replica: str, code: int, last_line: str | None = None) -> Message:
    """A replica that ended with this code."""
    return message(MessageReason.REPLICA_EXITED, replica=replica, code=code, message=last_line)


def lost(replica: str, node: str, fault: str) -> Message:
    """A replica whose node failed."""
    return message(MessageReason.REPLICA_LOST, replica=replica, node=node, fault=fault)


def failed(*causes: Message) -> Message:
    """A job that failed for these causes."""
    return message(MessageReason.REPLICAS_FAILED, causes)


def limit_reached(cause: Message, group: str, limit: int) -> Message:
    """A failure after which the group may not restart again."""
    return message(MessageReason.RESTART_LIMIT_REACHED, [cause], group=group, limit=limit)


def resized(
    group: str, before: int, after: int, requested_by: str, why: str | None = None, *, restarts: bool = False
) -> Message:
    """A new size of one group, for which the replicas restart or not."""
    change = message(
        MessageReason.GROUP_RESIZED, group=group, before=before, after=after, requestedBy=requested_by, message=why
    )
    return message(MessageReason.GROUPS_RESIZED, [change], restarts=1 if restarts else None)
