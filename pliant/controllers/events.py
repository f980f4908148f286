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
CONTROLLER = "pliant"
ACTION = "Reconcile"
LONGEST_NOTE = 1024
HELD_BACK = "more of these were held back; they are only counted here"

SAME_MOMENT = 2.0
"""Seconds in which a repetition is no news: a pass that is overtaken says everything again."""
SETTLE = 30.0
"""Seconds between two writes that tell how often something happened."""
BURST = 10
REFILL = 10.0
"""Seconds after which an object may be told of once more."""
REMEMBERED = 4096
"""Events and objects kept in mind; what is forgotten is told anew, and meets its first telling."""
ATTEMPTS = 3
FIRST_PAUSE = 5.0
AT_ONCE = 4
LAST_WORDS = 2.0
"""Seconds that events under way have at the end."""

_PASSING = (Unreachable, ServerError, TooManyRequests)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Told:
    """One thing that was told, and how often."""

    name: str
    namespace: str
    about: Owner
    event: EmitEvent
    first: datetime
    last: datetime
    heard: float
    """When it was last told, on the loop's clock."""
    count: int = 1
    written: int = 0
    """How often of `count` is known to the server."""
    before: int | None = 0
    """How often somebody told it before us; None when that has to be asked for."""
    settled: float = 0.0
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
        self._instance = (instance or platform.node() or CONTROLLER)[:128]
        self._told: OrderedDict[str, _Told] = OrderedDict()
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._due: asyncio.Queue[_Told] = asyncio.Queue()

    def tell(self, about: Owner, namespace: str, event: EmitEvent) -> None:
        """Tell one thing about one object, at the recorder's leisure."""
        now = asyncio.get_running_loop().time()
        name = _name(about, event.reason, event.message)
        if (known := self._told.get(name)) is not None:
            self._repeat(known, now)
            return
        if not self._take_token(about.uid, now):
            event = EmitEvent(reason=event.reason, message=HELD_BACK, is_warning=event.is_warning)
            name = _name(about, event.reason, HELD_BACK)
            if (known := self._told.get(name)) is not None:
                self._repeat(known, now)
                return
        moment = self._clock.now()
        self._remember(_Told(name, namespace, about, event, first=moment, last=moment, heard=now))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write what is told for as long as the block runs; what is under way then has a moment to finish."""
        async with asyncio.TaskGroup() as tasks:
            writers = [tasks.create_task(self._work()) for _ in range(AT_ONCE)]
            try:
                yield
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await self._due.join()
                for writer in writers:
                    writer.cancel()

    def _remember(self, told: _Told) -> None:
        if self._due.qsize() >= REMEMBERED:
            return  # nobody can be told anything just now
        self._told[told.name] = told
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        self._schedule(told, 0.0)

    def _repeat(self, told: _Told, now: float) -> None:
        self._told.move_to_end(told.name)
        is_news = now - told.heard >= SAME_MOMENT or told.event.message == HELD_BACK
        told.heard = now
        if is_news:
            told.count += 1
            told.last = self._clock.now()
            self._schedule(told, max(told.settled + SETTLE - now, 0.0))

    def _take_token(self, uid: str, now: float) -> bool:
        tokens, counted = self._tokens.pop(uid, (float(BURST), now))
        tokens = min(tokens + (now - counted) / REFILL, float(BURST))
        is_there = tokens >= 1.0
        self._tokens[uid] = (tokens - 1.0 if is_there else tokens, now)
        if len(self._tokens) > REMEMBERED:
            self._tokens.popitem(last=False)
        return is_there

    def _schedule(self, told: _Told, pause: float) -> None:
        if told.is_due:
            return
        told.is_due = True
        if pause:
            asyncio.get_running_loop().call_later(pause, self._due.put_nowait, told)
        else:
            self._due.put_nowait(told)

    async def _work(self) -> None:
        while True:
            told = await self._due.get()
            try:
                await self._write(told)
            finally:
                self._due.task_done()

    async def _write(self, told: _Told) -> None:
        told.is_due = False
        count = told.count
        try:
            await (self._recount(told) if told.written else self._create(told))
        except LeaseLost:
            return  # nothing may be said any more; whoever leads now tells what there is to tell
        except _PASSING as error:
            told.failures += 1
            if told.failures < ATTEMPTS:
                self._schedule(told, error.retry_after or FIRST_PAUSE * told.failures)
                return
            self._give_up(told, error)
        except ApiError as error:
            self._give_up(told, error)
        told.failures = 0
        told.written = count
        told.settled = asyncio.get_running_loop().time()
        if told.count > count:
            self._schedule(told, SETTLE)

    async def _create(self, told: _Told) -> None:
        series = {"series": _series(told.count, told.last)} if told.count > 1 else {}
        about = told.about
        body: dict[str, Any] = {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": told.name, "namespace": told.namespace},
            "regarding": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "name": about.name,
                "namespace": told.namespace,
                "uid": about.uid,
            },
            "reason": told.event.reason,
            "note": _note(told.event.message),
            "type": "Warning" if told.event.is_warning else "Normal",
            "action": ACTION,
            "eventTime": _moment(told.first),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            **series,
        }
        try:
            await self._client.create(EVENTS, told.namespace, body)
        except AlreadyExists:
            told.before = None
            if told.count > 1:
                await self._recount(told)

    async def _recount(self, told: _Told) -> None:
        """Tell how often it happened by now; the first time in our life may be the last one of the life before."""
        try:
            if told.before is None:
                found = await self._client.get(EVENTS, told.namespace, told.name)
                told.before = int((found.get("series") or {}).get("count") or 1)
            patch = {"series": _series(told.count + max(told.before - 1, 0), told.last)}
            await self._client.patch(EVENTS, told.namespace, told.name, patch)
        except NotFound:
            told.before = 0
            await self._create(told)  # the server has forgotten the event, as it does after an hour

    def _give_up(self, told: _Told, error: ApiError) -> None:
        # In a namespace that goes away nothing can be told, and nobody is there to read it.
        level = logging.DEBUG if isinstance(error, NotFound) or "terminated" in str(error) else logging.WARNING
        extra = {"about": f"{told.namespace}/{told.about.name}", "because": str(error)}
        log.log(level, "event not written", extra=extra)


def _name(about: Owner, reason: str, message: str) -> str:
    digest = hashlib.sha256(f"{about.uid}/{reason}/{message}".encode()).hexdigest()[:16]
    return f"{about.name}.{digest}"


def _series(count: int, last: datetime) -> dict[str, Any]:
    return {"count": count, "lastObservedTime": _moment(last)}


def _moment(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _note(message: str) -> str:
    """As much of a message as an event may hold, which is counted in bytes."""
    return message.encode()[:LONGEST_NOTE].decode(errors="ignore")
