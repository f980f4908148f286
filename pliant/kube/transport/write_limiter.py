"""Limits the writes in flight to what the API server accepts (additive increase, multiplicative decrease).

At first the limit doubles with every round of accepted writes. Once a write was throttled, the limit grows by one per
round. A throttled write halves the limit, at most once per round. The writes in flight at that time show how many the
server accepted; the limit stays below that number until the retry delay is over. A server that accepts N writes at a
time thus gets about N of them, and one too many about once a second.

A server that accepts no write at all gets a single probe after each retry delay.

Writes that wait for the limit are queued by namespace and job (`write_flows`).
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from pliant.errors import ApiError, ServerError, TooManyRequests, Unreachable
from pliant.kube.transport.write_flows import DEFAULT_FLOW, QueuedWrite, WriteClass, WriteFlow, WriteQueue

MAX_WRITES_IN_FLIGHT = 64  # default maximum; a higher limit does not help, because the server has its own limits
INITIAL_WRITES_IN_FLIGHT = 8
STALLED_SERVER_TIMEOUT_SECONDS = 30.0
"""A write is rejected if it waited this long and the server accepted no write of any job in this time."""
MIN_RETRY_AFTER_SECONDS = 0.1  # used when the server responds `Retry-After: 0`
_SERVICE_UNAVAILABLE = 503
_NO_RESPONSE = Unreachable("no response")
_STALLED_MESSAGE = f"write not sent: the server accepted no write for {STALLED_SERVER_TIMEOUT_SECONDS:.0f}s"
_TIMER_SLACK_SECONDS = 1e-3  # a timer may fire this much too early


def is_throttling(error: ApiError) -> bool:
    """Return whether the server reported overload and a retry delay."""
    if error.retry_after is None:
        return False
    return isinstance(error, TooManyRequests) or (
        isinstance(error, ServerError) and error.status == _SERVICE_UNAVAILABLE
    )


class AdaptiveWriteLimiter:
    """Admits as many concurrent writes as the server accepts; queues the others."""

    def __init__(self, max_limit: int = MAX_WRITES_IN_FLIGHT) -> None:
        self.max_limit = max_limit
        self.limit = float(min(max_limit, INITIAL_WRITES_IN_FLIGHT))
        """The current limit; its fraction counts towards the next whole write."""
        self.in_flight = 0
        self.queue = WriteQueue()
        self.throttled_count = 0
        self._epoch = 0
        """Number of times the limit was halved; responses to writes of earlier epochs carry no new information."""
        self._accepted_in_flight = 0
        """How many of the writes in flight at the last halving the server may have accepted."""
        self._growth_limited_until = 0.0  # until this time the limit may not exceed `_accepted_in_flight`
        self._is_blocked = False  # True until a write is accepted after the last throttled one
        self._may_probe = False  # whether a single write may be sent while blocked: the retry delay is over
        self._retry_after = 0.0
        self._accepted_at = 0.0  # when the server last accepted a write
        self._probe_timer: asyncio.TimerHandle | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None

    @property
    def queued_count(self) -> int:
        return len(self.queue)

    def write_slot(
        self, flow: WriteFlow = DEFAULT_FLOW, write_class: WriteClass = WriteClass.CREATION, cost: int = 1
    ) -> WriteSlot:
        """Return a context manager that holds a slot for one write."""
        return WriteSlot(self, flow, write_class, cost)

    async def acquire(self, flow: WriteFlow, write_class: WriteClass, cost: int) -> int:
        """Wait for a slot and return its epoch; raise `TooManyRequests` if the server stops accepting writes."""
        if not self.queue and self._has_capacity():
            self._start_write()
            return self._epoch
        loop = asyncio.get_running_loop()
        write = QueuedWrite(flow, write_class, loop.create_future(), loop.time(), cost)
        self.queue.push(write)
        if self._expiry_timer is None:
            self._expiry_timer = loop.call_later(STALLED_SERVER_TIMEOUT_SECONDS, self._expire_queued)
        try:
            return await write.slot
        except asyncio.CancelledError:
            # The waiter was cancelled, unless its slot was granted at the same moment.
            self.queue.withdraw(write)
            if not write.slot.cancelled() and write.slot.exception() is None:
                self._finish_write()
            raise

    def _expire_queued(self) -> None:
        """Reject the writes that waited too long for a server that accepts nothing. One timer serves all writes."""
        loop = asyncio.get_running_loop()
        now, self._expiry_timer = loop.time() + _TIMER_SLACK_SECONDS, None
        due_at: list[float] = []
        for write in list(self.queue):
            due = max(write.queued_at, self._accepted_at) + STALLED_SERVER_TIMEOUT_SECONDS
            if due > now:
                due_at.append(due)
            elif not write.slot.done():
                self.queue.withdraw(write)
                write.slot.set_exception(TooManyRequests(429, "TooManyRequests", _STALLED_MESSAGE))
        if due_at:
            self._expiry_timer = loop.call_at(min(due_at), self._expire_queued)

    def release(self, epoch: int, error: ApiError | None) -> None:
        """Release a slot and adapt the limit to the response; no response carries no information."""
        if error is not None and is_throttling(error):
            self._note_throttled(epoch, error.retry_after or 0.0)
        elif not isinstance(error, Unreachable):
            self._note_accepted()
        self._finish_write()

    def _note_accepted(self) -> None:
        self._is_blocked = False
        self._accepted_at = asyncio.get_running_loop().time()
        # A limit that is not reached has not been tested.
        if self.in_flight >= int(self.limit):
            increase = 1.0 if self._epoch == 0 else 1.0 / self.limit
            is_over = self._accepted_at >= self._growth_limited_until
            growth_limit = self.max_limit if is_over else min(self._accepted_in_flight, self.max_limit)
            self.limit = max(self.limit, min(self.limit + increase, float(growth_limit)))

    def _note_throttled(self, epoch: int, retry_after: float) -> None:
        self.throttled_count += 1
        if epoch == self._epoch:
            self._epoch += 1
            self._retry_after = max(retry_after, MIN_RETRY_AFTER_SECONDS)
            self._accepted_in_flight = self.in_flight
            self._growth_limited_until = asyncio.get_running_loop().time() + self._retry_after
            self.limit = min(self.limit, float(self.in_flight)) / 2.0
            self._block_until_probe()
        self._accepted_in_flight -= 1
        self.limit = max(min(self.limit, float(self._accepted_in_flight)), 1.0)

    def _block_until_probe(self) -> None:
        self._is_blocked, self._may_probe = True, False
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        self._probe_timer = asyncio.get_running_loop().call_later(self._retry_after, self._allow_probe)

    def _allow_probe(self) -> None:
        self._may_probe = True
        self._admit_queued()

    def _has_capacity(self) -> bool:
        return self._may_probe if self._is_blocked else self.in_flight < int(self.limit)

    def _start_write(self) -> None:
        self.in_flight += 1
        if self._is_blocked:
            self._block_until_probe()

    def _finish_write(self) -> None:
        self.in_flight -= 1
        self._admit_queued()

    def _admit_queued(self) -> None:
        while self._has_capacity() and (write := self.queue.pop()) is not None:
            if not write.slot.done():  # a waiter whose cancellation is pending needs no slot
                self._start_write()
                write.slot.set_result(self._epoch)


class WriteSlot:
    def __init__(self, limiter: AdaptiveWriteLimiter, flow: WriteFlow, write_class: WriteClass, cost: int) -> None:
        self._limiter = limiter
        self._flow = flow
        self._write_class = write_class
        self._cost = cost
        self._epoch = 0
        self._error: ApiError | None = _NO_RESPONSE

    def record_response(self, error: ApiError | None) -> None:
        self._error = error

    async def __aenter__(self) -> WriteSlot:
        self._epoch = await self._limiter.acquire(self._flow, self._write_class, self._cost)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release(self._epoch, self._error)
