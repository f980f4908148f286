"""How many writes may be in flight: as many as the server takes, found out by asking and by listening to it.

At first the limit doubles with every round of accepted writes; once a write was turned away, it grows by one with
every round. A write that is turned away halves it, at most once for each round, and those that left together with
it show how many the server did take: until the wait that it asked for is over, the limit stays below that. So a
server that takes N writes at a time sees about N of them, and one too many about once a second.

A server that takes nothing at all is asked by one write each time the wait is over, and by no other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType

from pliant.errors import ApiError, ServerError, TooManyRequests, Unreachable

MAX_WRITES_IN_FLIGHT = 64
"""Writes in flight at a time, unless the server objects: more gain nothing, for it has its own limits."""
INITIAL_WRITES_IN_FLIGHT = 8
"""Writes in flight before anything is known of the server."""
QUEUE_TIMEOUT_SECONDS = 30.0
"""How long a write may wait for its turn: what was decided before that may no longer be right."""
MIN_RETRY_AFTER_SECONDS = 0.1
"""Seconds to keep when the server says `Retry-After: 0`."""
_SERVICE_UNAVAILABLE = 503
_NO_RESPONSE = Unreachable("no answer")
_QUEUE_TIMEOUT_MESSAGE = f"no turn to write within {QUEUE_TIMEOUT_SECONDS:.0f}s: the server is busy"
_TIMER_SLACK_SECONDS = 1e-3
"""Seconds by which a timer may come too early."""

_QueuedWrite = tuple[asyncio.Future[int], float]
"""Is told the round of its turn; and until when it waits for that."""


def is_throttling(error: ApiError) -> bool:
    """Whether a server said that it is asked too much; it then says when to come again, too."""
    if error.retry_after is None:
        return False
    return isinstance(error, TooManyRequests) or (
        isinstance(error, ServerError) and error.status == _SERVICE_UNAVAILABLE
    )


class AdaptiveWriteLimiter:
    """Lets as many writes go at a time as the server takes; the others wait in line."""

    def __init__(self, max_limit: int = MAX_WRITES_IN_FLIGHT) -> None:
        self.max_limit = max_limit
        self.limit = float(min(max_limit, INITIAL_WRITES_IN_FLIGHT))
        """How many may be in flight now; its fraction is what has been earned towards one more."""
        self.in_flight = 0
        self.queued_count = 0
        """How many wait for their turn."""
        self.throttled_count = 0
        """How often the server has turned a write away."""
        self._epoch = 0
        """Counts the halvings: what left before the last one tells nothing new."""
        self._accepted_in_flight = 0
        """How many of those in flight at the last halving the server can have taken."""
        self._growth_limited_until = 0.0
        """Until when it has asked not to be tried with more."""
        self._is_blocked = False
        """While nothing has been accepted since the last refusal."""
        self._may_probe = False
        """Whether a single write may go, though held: the wait is over."""
        self._retry_after = 0.0
        self._queues = (deque[_QueuedWrite](), deque[_QueuedWrite]())
        """Those who go ahead, and the others; they take turns, so neither waits for all of the other."""
        self._last_queue = 1
        self._probe_timer: asyncio.TimerHandle | None = None
        self._expiry_timer: asyncio.TimerHandle | None = None

    def write_slot(self, *, urgent: bool = False) -> WriteSlot:
        """Leave to send one write, for as long as the block runs; to go ahead is to pass those who need not."""
        return WriteSlot(self, urgent)

    async def acquire(self, urgent: bool) -> int:
        """Wait for a turn; returns its round. Raises `TooManyRequests` when none comes in time."""
        if not self.queued_count and self._has_capacity():
            self._start_write()
            return self._epoch
        loop = asyncio.get_running_loop()
        its_turn: asyncio.Future[int] = loop.create_future()
        self._queues[0 if urgent else 1].append((its_turn, loop.time() + QUEUE_TIMEOUT_SECONDS))
        self.queued_count += 1
        if self._expiry_timer is None:
            self._expiry_timer = loop.call_later(QUEUE_TIMEOUT_SECONDS, self._expire_queued)
        try:
            return await its_turn
        except asyncio.CancelledError:
            # Whoever gives up has been cancelled, unless the turn came in that very moment.
            if its_turn.cancelled():
                self.queued_count -= 1
            elif its_turn.exception() is None:
                self._finish_write()
            raise

    def _expire_queued(self) -> None:
        """End the waits that have lasted too long; one timer for all, since one each costs more than the turn."""
        loop = asyncio.get_running_loop()
        now, self._expiry_timer = loop.time() + _TIMER_SLACK_SECONDS, None
        for line in self._queues:
            while line and (line[0][0].done() or line[0][1] <= now):
                its_turn, _ = line.popleft()
                if not its_turn.done():
                    self.queued_count -= 1
                    its_turn.set_exception(TooManyRequests(429, "TooManyRequests", _QUEUE_TIMEOUT_MESSAGE))
        if oldest := [line[0][1] for line in self._queues if line]:
            self._expiry_timer = loop.call_at(min(oldest), self._expire_queued)

    def release(self, epoch: int, error: ApiError | None) -> None:
        """Give the turn of a round back, and learn from the answer; from none, nothing."""
        if error is not None and is_throttling(error):
            self._note_throttled(epoch, error.retry_after or 0.0)
        elif not isinstance(error, Unreachable):
            self._note_accepted()
        self._finish_write()

    def _note_accepted(self) -> None:
        self._is_blocked = False
        # A limit that nobody comes up to has not been shown to be good.
        if self.in_flight >= int(self.limit):
            more = 1.0 if self._epoch == 0 else 1.0 / self.limit
            self.limit = max(self.limit, min(self.limit + more, self._growth_limit()))

    def _growth_limit(self) -> float:
        is_over = asyncio.get_running_loop().time() >= self._growth_limited_until
        return float(self.max_limit if is_over else min(self._accepted_in_flight, self.max_limit))

    def _note_throttled(self, epoch: int, retry_after: float) -> None:
        self.throttled_count += 1
        if epoch == self._epoch:
            self._epoch += 1
            self._retry_after = max(retry_after, MIN_RETRY_AFTER_SECONDS)
            self._accepted_in_flight, self._growth_limited_until = (
                self.in_flight,
                asyncio.get_running_loop().time() + self._retry_after,
            )
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
        while self._has_capacity() and (its_turn := self._pop_queued()) is not None:
            self._start_write()
            self.queued_count -= 1
            its_turn.set_result(self._epoch)

    def _pop_queued(self) -> asyncio.Future[int] | None:
        for turn in (1 - self._last_queue, self._last_queue):
            line = self._queues[turn]
            while line:
                its_turn, _ = line.popleft()
                if not its_turn.done():
                    self._last_queue = turn
                    return its_turn
        return None


class WriteSlot:
    """Leave to send one write; whoever has it says how the server answered."""

    def __init__(self, limiter: AdaptiveWriteLimiter, urgent: bool) -> None:
        self._limiter = limiter
        self._urgent = urgent
        self._epoch = 0
        self._error: ApiError | None = _NO_RESPONSE

    def record_response(self, error: ApiError | None) -> None:
        """Say how the server answered: with an error, or none."""
        self._error = error

    async def __aenter__(self) -> WriteSlot:
        self._epoch = await self._limiter.acquire(self._urgent)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limiter.release(self._epoch, self._error)
