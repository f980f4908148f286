"""Tells people what happened to a job, where `kubectl describe` looks; never in the way of the work itself."""

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

from pliant.errors import AlreadyExists, ApiError, LeaseLost, NotFound, ServerError, TooManyRequests, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.actions import EmitEvent
from pliant.model.job import Owner
from pliant.runtime.clock import Clock

EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
REPORTING_CONTROLLER = "pliant"
EVENT_ACTION = "Reconcile"
MAX_NOTE_BYTES = 1024
SUPPRESSED_NOTE = "more of these were held back; they are only counted here"

DUPLICATE_WINDOW = 2.0
"""Seconds in which a repetition is no news: a pass that is overtaken says everything again."""
COUNT_UPDATE_INTERVAL = 30.0
"""Seconds between two writes that tell how often something happened."""
EVENT_BURST = 10
TOKEN_REFILL_INTERVAL = 10.0
"""Seconds after which an object may be told of once more."""
MAX_TRACKED_EVENTS = 4096
"""Events and objects kept in mind; what is forgotten is told anew, and meets its first telling."""
MAX_WRITE_ATTEMPTS = 3
RETRY_DELAY = 5.0
WRITER_COUNT = 4
SHUTDOWN_GRACE = 2.0
"""Seconds that events under way have at the end."""

_RETRYABLE_ERRORS = (Unreachable, ServerError, TooManyRequests)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RecordedEvent:
    """One thing that was told, and how often."""

    name: str
    namespace: str
    regarding: Owner
    event: EmitEvent
    first_at: datetime
    last_at: datetime
    emitted_at: float
    """When it was last told, on the loop's clock."""
    count: int = 1
    written_count: int = 0
    """How often of `count` is known to the server."""
    prior_count: int | None = 0
    """How often somebody told it before us; None when that has to be asked for."""
    written_at: float = 0.0
    """When it was last written, on the loop's clock."""
    is_due: bool = False
    failures: int = 0


class EventRecorder:
    """Writes events in the background: each thing once, then how often, and never a flood of them.

    The name of an event is made of what it tells, so telling the same again after a crash meets the first telling.
    An object has a burst of events and then one every few seconds; what goes beyond is counted in one event for
    each reason.
    """

    def __init__(self, client: KubeClient, clock: Clock, instance: str = "") -> None:
        self._client = client
        self._clock = clock
        self._instance = (instance or platform.node() or REPORTING_CONTROLLER)[:128]
        self._recorded: OrderedDict[str, _RecordedEvent] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._due: asyncio.Queue[_RecordedEvent] = asyncio.Queue()

    def emit(self, regarding: Owner, namespace: str, event: EmitEvent) -> None:
        """Tell one thing about one object, at the recorder's leisure."""
        now = asyncio.get_running_loop().time()
        name = _event_name(regarding, event.reason, event.message)
        if (known := self._recorded.get(name)) is not None:
            self._count_repeat(known, now)
            return
        if not self._take_token(regarding.uid, now):
            event = EmitEvent(reason=event.reason, message=SUPPRESSED_NOTE, is_warning=event.is_warning)
            name = _event_name(regarding, event.reason, SUPPRESSED_NOTE)
            if (known := self._recorded.get(name)) is not None:
                self._count_repeat(known, now)
                return
        moment = self._clock.now()
        self._enqueue_new(
            _RecordedEvent(name, namespace, regarding, event, first_at=moment, last_at=moment, emitted_at=now)
        )

    @asynccontextmanager
    async def run_in_background(self) -> AsyncIterator[None]:
        """Write what is told for as long as the block runs; what is under way then has a moment to finish."""
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self._write_loop()) for _ in range(WRITER_COUNT)]
            try:
                yield
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SHUTDOWN_GRACE):
                        await self._due.join()
                for writer in writers:
                    writer.cancel()

    def _enqueue_new(self, recorded: _RecordedEvent) -> None:
        if self._due.qsize() >= MAX_TRACKED_EVENTS:
            return  # nobody can be told anything just now
        self._recorded[recorded.name] = recorded
        if len(self._recorded) > MAX_TRACKED_EVENTS:
            self._recorded.popitem(last=False)
        self._schedule_write(recorded, 0.0)

    def _count_repeat(self, recorded: _RecordedEvent, now: float) -> None:
        self._recorded.move_to_end(recorded.name)
        is_news = now - recorded.emitted_at >= DUPLICATE_WINDOW or recorded.event.message == SUPPRESSED_NOTE
        recorded.emitted_at = now
        if is_news:
            recorded.count += 1
            recorded.last_at = self._clock.now()
            self._schedule_write(recorded, max(recorded.written_at + COUNT_UPDATE_INTERVAL - now, 0.0))

    def _take_token(self, uid: str, now: float) -> bool:
        tokens, counted = self._tokens.pop(uid, (float(EVENT_BURST), now))
        tokens = min(tokens + (now - counted) / TOKEN_REFILL_INTERVAL, float(EVENT_BURST))
        is_there = tokens >= 1.0
        self._tokens[uid] = (tokens - 1.0 if is_there else tokens, now)
        if len(self._tokens) > MAX_TRACKED_EVENTS:
            self._tokens.popitem(last=False)
        return is_there

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
            told = await self._due.get()
            try:
                await self._write_event(told)
            finally:
                self._due.task_done()

    async def _write_event(self, recorded: _RecordedEvent) -> None:
        recorded.is_due = False
        count = recorded.count
        try:
            await (self._patch_count(recorded) if recorded.written_count else self._create_event(recorded))
        except LeaseLost:
            return  # nothing may be said any more; whoever leads now tells what there is to tell
        except _RETRYABLE_ERRORS as error:
            recorded.failures += 1
            if recorded.failures < MAX_WRITE_ATTEMPTS:
                self._schedule_write(recorded, error.retry_after or RETRY_DELAY * recorded.failures)
                return
            self._log_give_up(recorded, error)
        except ApiError as error:
            self._log_give_up(recorded, error)
        recorded.failures = 0
        recorded.written_count = count
        recorded.written_at = asyncio.get_running_loop().time()
        if recorded.count > count:
            self._schedule_write(recorded, COUNT_UPDATE_INTERVAL)

    async def _create_event(self, recorded: _RecordedEvent) -> None:
        series = {"series": _event_series(recorded.count, recorded.last_at)} if recorded.count > 1 else {}
        about = recorded.regarding
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": recorded.name, "namespace": recorded.namespace},
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": recorded.namespace,
                "uid": about.uid,
            },
            "reason": recorded.event.reason,
            "note": _truncate_note(recorded.event.message),
            "type": "Warning" if recorded.event.is_warning else "Normal",
            "action": EVENT_ACTION,
            "eventTime": _format_time(recorded.first_at),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": self._instance,
            **series,
        }
        try:
            await self._client.create(EVENTS, recorded.namespace, body)
        except AlreadyExists:
            recorded.prior_count = None
            if recorded.count > 1:
                await self._patch_count(recorded)

    async def _patch_count(self, recorded: _RecordedEvent) -> None:
        """Tell how often it happened by now; the first time in our life may be the last one of the life before."""
        try:
            if recorded.prior_count is None:
                found = await self._client.get(EVENTS, recorded.namespace, recorded.name)
                recorded.prior_count = int((found.get("series") or {}).get("count") or 1)
            patch = {"series": _event_series(recorded.count + max(recorded.prior_count - 1, 0), recorded.last_at)}
            await self._client.patch(EVENTS, recorded.namespace, recorded.name, patch)
        except NotFound:
            recorded.prior_count = 0
            await self._create_event(recorded)  # the server has forgotten the event, as it does after an hour

    def _log_give_up(self, recorded: _RecordedEvent, error: ApiError) -> None:
        # In a namespace that goes away nothing can be told, and nobody is there to read it.
        level = logging.DEBUG if isinstance(error, NotFound) or "terminated" in str(error) else logging.WARNING
        extra = {"about": f"{recorded.namespace}/{recorded.regarding.name}", "because": str(error)}
        log.log(level, "event not written", extra=extra)


def _event_name(regarding: Owner, reason: str, message: str) -> str:
    digest = hashlib.sha256(f"{regarding.uid}/{reason}/{message}".encode()).hexdigest()[:16]
    return f"{regarding.name}.{digest}"


def _event_series(count: int, last_at: datetime) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": _format_time(last_at)}


def _format_time(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _truncate_note(message: str) -> str:
    """As much of a message as an event may hold, which is counted in bytes."""
    return message.encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
