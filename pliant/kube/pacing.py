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

AT_ONCE = 64
"""Writes in flight at a time, unless the server objects: more gain nothing, for it has its own limits."""
AT_FIRST = 8
"""Writes in flight before anything is known of the server."""
PATIENCE_SECONDS = 30.0
"""How long a write may wait for its turn: what was decided before that may no longer be right."""
SHORTEST_WAIT = 0.1
"""Seconds to keep when the server says `Retry-After: 0`."""
_AWAY = 503
_NO_ANSWER = Unreachable("no answer")
_NO_TURN = f"no turn to write within {PATIENCE_SECONDS:.0f}s: the server is busy"
_TICK = 1e-3
"""Seconds by which a timer may come too early."""

_Waiter = tuple[asyncio.Future[int], float]
"""Is told the round of its turn; and until when it waits for that."""


def is_pushback(error: ApiError) -> bool:
    """Whether a server said that it is asked too much; it then says when to come again, too."""
    if error.retry_after is None:
        return False
    return isinstance(error, TooManyRequests) or (isinstance(error, ServerError) and error.status == _AWAY)


class Pace:
    """Lets as many writes go at a time as the server takes; the others wait in line."""

    def __init__(self, ceiling: int = AT_ONCE) -> None:
        self.ceiling = ceiling
        self.limit = float(min(ceiling, AT_FIRST))
        """How many may be in flight now; its fraction is what has been earned towards one more."""
        self.in_flight = 0
        self.waiting = 0
        """How many wait for their turn."""
        self.pushbacks = 0
        """How often the server has turned a write away."""
        self._round = 0
        """Counts the halvings: what left before the last one tells nothing new."""
        self._taken = 0
        """How many of those in flight at the last halving the server can have taken."""
        self._taken_until = 0.0
        """Until when it has asked not to be tried with more."""
        self._is_held = False
        """While nothing has been accepted since the last refusal."""
        self._may_try = False
        """Whether a single write may go, though held: the wait is over."""
        self._wait = 0.0
        self._lines = (deque[_Waiter](), deque[_Waiter]())
        """Those who go ahead, and the others; they take turns, so neither waits for all of the other."""
        self._last = 1
        self._timer: asyncio.TimerHandle | None = None
        self._sweep: asyncio.TimerHandle | None = None

    def turn(self, *, ahead: bool = False) -> Turn:
        """Leave to send one write, for as long as the block runs; to go ahead is to pass those who need not."""
        return Turn(self, ahead)

    async def enter(self, ahead: bool) -> int:
        """Wait for a turn; returns its round. Raises `TooManyRequests` when none comes in time."""
        if not self.waiting and self._may_enter():
            self._take()
            return self._round
        loop = asyncio.get_running_loop()
        its_turn: asyncio.Future[int] = loop.create_future()
        self._lines[0 if ahead else 1].append((its_turn, loop.time() + PATIENCE_SECONDS))
        self.waiting += 1
        if self._sweep is None:
            self._sweep = loop.call_later(PATIENCE_SECONDS, self._end_waits)
        try:
            return await its_turn
        except asyncio.CancelledError:
            # Whoever gives up has been cancelled, unless the turn came in that very moment.
            if its_turn.cancelled():
                self.waiting -= 1
            elif its_turn.exception() is None:
                self._leave()
            raise

    def _end_waits(self) -> None:
        """End the waits that have lasted too long; one timer for all, since one each costs more than the turn."""
        loop = asyncio.get_running_loop()
        now, self._sweep = loop.time() + _TICK, None
        for line in self._lines:
            while line and (line[0][0].done() or line[0][1] <= now):
                its_turn, _ = line.popleft()
                if not its_turn.done():
                    self.waiting -= 1
                    its_turn.set_exception(TooManyRequests(429, "TooManyRequests", _NO_TURN))
        if oldest := [line[0][1] for line in self._lines if line]:
            self._sweep = loop.call_at(min(oldest), self._end_waits)

    def leave(self, entered: int, error: ApiError | None) -> None:
        """Give the turn of a round back, and learn from the answer; from none, nothing."""
        if error is not None and is_pushback(error):
            self._note_pushback(entered, error.retry_after or 0.0)
        elif not isinstance(error, Unreachable):
            self._note_accepted()
        self._leave()

    def _note_accepted(self) -> None:
        self._is_held = False
        # A limit that nobody comes up to has not been shown to be good.
        if self.in_flight >= int(self.limit):
            more = 1.0 if self._round == 0 else 1.0 / self.limit
            self.limit = max(self.limit, min(self.limit + more, self._highest()))

    def _highest(self) -> float:
        is_over = asyncio.get_running_loop().time() >= self._taken_until
        return float(self.ceiling if is_over else min(self._taken, self.ceiling))

    def _note_pushback(self, entered: int, wait: float) -> None:
        self.pushbacks += 1
        if entered == self._round:
            self._round += 1
            self._wait = max(wait, SHORTEST_WAIT)
            self._taken, self._taken_until = self.in_flight, asyncio.get_running_loop().time() + self._wait
            self.limit = min(self.limit, float(self.in_flight)) / 2.0
            self._hold()
        self._taken -= 1
        self.limit = max(min(self.limit, float(self._taken)), 1.0)

    def _hold(self) -> None:
        self._is_held, self._may_try = True, False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._wait, self._try)

    def _try(self) -> None:
        self._may_try = True
        self._admit()

    def _may_enter(self) -> bool:
        return self._may_try if self._is_held else self.in_flight < int(self.limit)

    def _take(self) -> None:
        self.in_flight += 1
        if self._is_held:
            self._hold()

    def _leave(self) -> None:
        self.in_flight -= 1
        self._admit()

    def _admit(self) -> None:
        while self._may_enter() and (its_turn := self._next()) is not None:
            self._take()
            self.waiting -= 1
            its_turn.set_result(self._round)

    def _next(self) -> asyncio.Future[int] | None:
        for turn in (1 - self._last, self._last):
            line = self._lines[turn]
            while line:
                its_turn, _ = line.popleft()
                if not its_turn.done():
                    self._last = turn
                    return its_turn
        return None


class Turn:
    """Leave to send one write; whoever has it says how the server answered."""

    def __init__(self, pace: Pace, ahead: bool) -> None:
        self._pace = pace
        self._ahead = ahead
        self._entered = 0
        self._answer: ApiError | None = _NO_ANSWER

    def note(self, answer: ApiError | None) -> None:
        """Say how the server answered: with an error, or none."""
        self._answer = answer

    async def __aenter__(self) -> Turn:
        self._entered = await self._pace.enter(self._ahead)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pace.leave(self._entered, self._answer)
