"""Emits events on jobs in the background; a failure never affects a reconcile."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from pliant.errors import AlreadyExists, ApiError, LeaseLost, NotFound, ServerError, TooManyRequests, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.actions import EmitEvent
from pliant.model.english import render
from pliant.model.job import Owner
from pliant.model.messages import Message, MessageReason, message
from pliant.runtime.clock import Clock

EVENTS_RESOURCE = Resource("events.k8s.io", "v1", "events", "Event")
REPORTING_CONTROLLER = "pliant"
EVENT_ACTION = "Reconcile"
MAX_NOTE_BYTES = 1024
MESSAGE_ANNOTATION = "pliant/message"
"""The reason and the parameters of the note as JSON, for programs."""
SUPPRESSED_MESSAGE = message(MessageReason.EVENTS_SUPPRESSED)

DUPLICATE_WINDOW_SECONDS = 2.0
"""Seconds within which a repetition is not counted: a reconcile after a conflict emits its events again."""
COUNT_UPDATE_INTERVAL_SECONDS = 30.0  # seconds between two updates of an event's count
EVENT_BURST = 10
TOKEN_REFILL_SECONDS = 10.0  # seconds after which an object may have one more event
MAX_TRACKED_EVENTS = 4096
"""Events and objects tracked; an event that is dropped and emitted again has the same name and is not duplicated."""
MAX_WRITE_ATTEMPTS = 3
EVENT_WRITE_RETRY_SECONDS = 5.0
WRITER_COUNT = 4
SHUTDOWN_GRACE_SECONDS = 2.0  # seconds for pending events to be written at shutdown

_RETRYABLE_ERRORS = (Unreachable, ServerError, TooManyRequests)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RecordedEvent:
    name: str
    namespace: str
    regarding: Owner
    event: EmitEvent
    first_at: datetime
    last_at: datetime
    emitted_at: float  # when it last occurred, in event loop time
    count: int = 1
    written_count: int = 0  # the part of `count` that was written to the API server
    prior_count: int | None = 0  # the count that an earlier operator process wrote; None if it must be read first
    written_at: float = 0.0  # when it was last written, in event loop time
    is_due: bool = False
    failures: int = 0


class EventRecorder:
    """Writes events in the background, deduplicated and rate-limited.

    An event's name is a hash of its content, so a repetition after a crash updates the existing event. Each object
    has a burst of events and then one every few seconds; further events are counted in one event per reason.
    """

    def __init__(self, client: KubeClient, clock: Clock, instance: str = "") -> None:
        self._client = client
        self._clock = clock
        self._instance = (instance or platform.node() or REPORTING_CONTROLLER)[:128]
        self._recorded: OrderedDict[str, _RecordedEvent] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._due: asyncio.Queue[_RecordedEvent] = asyncio.Queue()

    def emit(self, regarding: Owner, namespace: str, event: EmitEvent) -> None:
        now = asyncio.get_running_loop().time()
        name = _event_name(regarding, event.reason, event.message)
        if (known := self._recorded.get(name)) is not None:
            self._count_repeat(known, now)
            return
        if not self._take_token(regarding.uid, now):
            event = EmitEvent(reason=event.reason, message=SUPPRESSED_MESSAGE, is_warning=event.is_warning)
            name = _event_name(regarding, event.reason, SUPPRESSED_MESSAGE)
            if (known := self._recorded.get(name)) is not None:
                self._count_repeat(known, now)
                return
        timestamp = self._clock.now()
        self._enqueue_new(
            _RecordedEvent(name, namespace, regarding, event, first_at=timestamp, last_at=timestamp, emitted_at=now)
        )

    @asynccontextmanager
    async def run_in_background(self) -> AsyncIterator[None]:
        """Write events while the block runs; pending ones then have a short grace period."""
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self._write_loop()) for _ in range(WRITER_COUNT)]
            try:
                yield
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHUTDOWN_GRACE_SECONDS):
                        await self._due.join()
                for writer in writers:
                    writer.cancel()

    def _enqueue_new(self, recorded: _RecordedEvent) -> None:
        if self._due.qsize() >= MAX_TRACKED_EVENTS:
            return  # the queue is full: drop the event
        self._recorded[recorded.name] = recorded
        if len(self._recorded) > MAX_TRACKED_EVENTS:
            self._recorded.popitem(last=False)
        self._schedule_write(recorded, 0.0)

    def _count_repeat(self, recorded: _RecordedEvent, now: float) -> None:
        self._recorded.move_to_end(recorded.name)
        is_new_occurrence = (
            now - recorded.emitted_at >= DUPLICATE_WINDOW_SECONDS
            or recorded.event.message.reason == MessageReason.EVENTS_SUPPRESSED
        )
        recorded.emitted_at = now
        if is_new_occurrence:
            recorded.count += 1
            recorded.last_at = self._clock.now()
            self._schedule_write(recorded, max(recorded.written_at + COUNT_UPDATE_INTERVAL_SECONDS - now, 0.0))

    def _take_token(self, uid: str, now: float) -> bool:
        tokens, updated_at = self._tokens.pop(uid, (float(EVENT_BURST), now))
        tokens = min(tokens + (now - updated_at) / TOKEN_REFILL_SECONDS, float(EVENT_BURST))
        has_token = tokens >= 1.0
        self._tokens[uid] = (tokens - 1.0 if has_token else tokens, now)
        if len(self._tokens) > MAX_TRACKED_EVENTS:
            self._tokens.popitem(last=False)
        return has_token

    def _schedule_write(self, recorded: _RecordedEvent, delay: float) -> None:
        if recorded.is_due:
            return
        recorded.is_due = True
        if delay:
            asyncio.get_running_loop().call_later(delay, self._due.put_nowait, recorded)
        else:
            self._due.put_nowait(recorded)

    async def _write_loop(self) -> None:
        while True:
            recorded = await self._due.get()
            try:
                await self._write_event(recorded)
            finally:
                self._due.task_done()

    async def _write_event(self, recorded: _RecordedEvent) -> None:
        recorded.is_due = False
        count = recorded.count
        try:
            await (self._patch_count(recorded) if recorded.written_count else self._create_event(recorded))
        except LeaseLost:
            return  # another operator leads now
        except _RETRYABLE_ERRORS as error:
            recorded.failures += 1
            if recorded.failures < MAX_WRITE_ATTEMPTS:
                self._schedule_write(recorded, error.retry_after or EVENT_WRITE_RETRY_SECONDS * recorded.failures)
                return
            self._log_write_failure(recorded, error)
        except ApiError as error:
            self._log_write_failure(recorded, error)
        recorded.failures = 0
        recorded.written_count = count
        recorded.written_at = asyncio.get_running_loop().time()
        if recorded.count > count:
            self._schedule_write(recorded, COUNT_UPDATE_INTERVAL_SECONDS)

    async def _create_event(self, recorded: _RecordedEvent) -> None:
        series = {"series": _event_series(recorded.count, recorded.last_at)} if recorded.count > 1 else {}
        regarding = recorded.regarding
        body: dict[str, Any] = {
            "apiVersion": EVENTS_RESOURCE.api_version,
            "kind": EVENTS_RESOURCE.kind,
            "metadata": {
                "name": recorded.name,
                "namespace": recorded.namespace,
                "annotations": {MESSAGE_ANNOTATION: msgspec.json.encode(recorded.event.message).decode()},
            },
            "regarding": {
                "apiVersion": regarding.api_version,
                "kind": regarding.kind,
                "name": regarding.name,
                "namespace": recorded.namespace,
                "uid": regarding.uid,
            },
            "reason": recorded.event.reason,
            "note": _truncate_note(render(recorded.event.message)),
            "type": "Warning" if recorded.event.is_warning else "Normal",
            "action": EVENT_ACTION,
            "eventTime": _format_time(recorded.first_at),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._instance,
            **series,
        }
        try:
            client = self._client.for_flow(WriteFlow(recorded.namespace))
            await client.create(EVENTS_RESOURCE, recorded.namespace, body)
        except AlreadyExists:
            recorded.prior_count = None
            if recorded.count > 1:
                await self._patch_count(recorded)

    async def _patch_count(self, recorded: _RecordedEvent) -> None:
        """Update the event's count, including what an earlier operator process counted."""
        try:
            if recorded.prior_count is None:
                existing = await self._client.get(EVENTS_RESOURCE, recorded.namespace, recorded.name)
                recorded.prior_count = int((existing.get("series") or {}).get("count") or 1)
            patch = {"series": _event_series(recorded.count + max(recorded.prior_count - 1, 0), recorded.last_at)}
            client = self._client.for_flow(WriteFlow(recorded.namespace))
            await client.patch(EVENTS_RESOURCE, recorded.namespace, recorded.name, patch)
        except NotFound:
            recorded.prior_count = 0
            await self._create_event(recorded)  # the event has expired, by default after an hour

    def _log_write_failure(self, recorded: _RecordedEvent, error: ApiError) -> None:
        # In a namespace that is being deleted no event can be created.
        level = logging.DEBUG if isinstance(error, NotFound) or "terminated" in str(error) else logging.WARNING
        extra = {"regarding": f"{recorded.namespace}/{recorded.regarding.name}", "error": str(error)}
        log.log(level, "event not written", extra=extra)


def _event_name(regarding: Owner, reason: str, message: Message) -> str:
    digest = hashlib.sha256(f"{regarding.uid}/{reason}/{render(message)}".encode()).hexdigest()[:16]
    return f"{regarding.name}.{digest}"


def _event_series(count: int, last_at: datetime) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": _format_time(last_at)}


def _format_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _truncate_note(text: str) -> str:
    """Truncate a text to the size limit of an event note, which is in bytes."""
    return text.encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
