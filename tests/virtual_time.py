"""An event loop on which hours pass in milliseconds: when nothing is ready, time jumps to the next timer."""

from __future__ import annotations

import asyncio
import functools
import inspect
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)


class Deadlock(Exception):
    """Nothing is ready and no timer is set: the program waits for ever."""


class TooLong(Exception):
    """Virtual time ran past the limit: the program waits for what never comes, with timers ticking."""


class _JumpingSelector(selectors.DefaultSelector):
    """Never blocks: a wait moves the clock instead."""

    def __init__(self, limit: timedelta) -> None:
        super().__init__()
        self.now = 0.0
        self.limit = limit.total_seconds()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Whatever is ready; otherwise the time spent waiting, and nothing."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Deadlock("nothing is ready and no timer is set")
        self.now += max(timeout, 0.0)
        if self.now > self.limit:
            raise TooLong(f"more than {timedelta(seconds=self.limit)} passed")
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock stands still while anything can run."""

    def __init__(self, limit: timedelta = timedelta(days=1)) -> None:
        self._jumping = _JumpingSelector(limit)
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._jumping.now


class VirtualClock:
    """The time of day on the running virtual loop."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        return EPOCH + timedelta(seconds=asyncio.get_running_loop().time())


def run(main: Coroutine[Any, Any, T], *, limit: timedelta = timedelta(days=1)) -> T:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(limit)) as runner:
        return runner.run(main)


def on_virtual_time(scenario: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make an async test a plain one that runs on virtual time; fixtures and parameters stay."""

    @functools.wraps(scenario)
    def test(*args: Any, **kwargs: Any) -> None:
        run(scenario(*args, **kwargs))

    # Otherwise pytest follows the wrapper back to the coroutine function and runs that itself.
    test.__signature__ = inspect.signature(scenario)  # type: ignore[attr-defined]
    del test.__wrapped__
    return test


async def passing(delay: timedelta) -> None:
    """Let virtual time pass."""
    await asyncio.sleep(delay.total_seconds())


async def quiet() -> None:
    """Return once everything that can run now has run: the clock moves only when nothing is ready."""
    await asyncio.sleep(1e-6)
