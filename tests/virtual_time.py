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
        self.wall_jumps = timedelta(0)
        """By how much the time of day was set forward or back, and how long the machine slept."""
        self.slept = timedelta(0)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._jumping.now


class ThreeClocks:
    """The clocks of a machine, which a test moves: wall, monotonic and boot."""

    def __init__(self, wall: datetime = EPOCH) -> None:
        self.boot_id = "a-boot"
        self._wall = wall
        self._monotonic = 1000.0
        self._slept = 0.0

    def now(self) -> datetime:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def uptime(self) -> float:
        return self._monotonic + self._slept

    def advance(self, seconds: float) -> None:
        """Let time pass on a machine that is awake."""
        self._wall += timedelta(seconds=seconds)
        self._monotonic += seconds

    def jump_wall(self, by: timedelta) -> None:
        """Set the time of day forward or back."""
        self._wall += by

    def suspend(self, duration: timedelta) -> None:
        """Let the machine sleep: its monotonic clock stands still."""
        self._wall += duration
        self._slept += duration.total_seconds()


class VirtualClock:
    """The clocks of the machine on which the running virtual loop is; all instances share them."""

    boot_id = "virtual"

    def now(self) -> datetime:
        """The present moment, in UTC."""
        loop = asyncio.get_running_loop()
        jumps = loop.wall_jumps if isinstance(loop, VirtualLoop) else timedelta(0)
        return EPOCH + timedelta(seconds=loop.time()) + jumps

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def uptime(self) -> float:
        return self.monotonic() + _running_loop().slept.total_seconds()

    def jump_wall(self, by: timedelta) -> None:
        """Set the time of day forward or back."""
        _running_loop().wall_jumps += by

    def suspend(self, duration: timedelta) -> None:
        """Let the machine sleep: timers stand still meanwhile."""
        _running_loop().wall_jumps += duration
        _running_loop().slept += duration


def _running_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


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
