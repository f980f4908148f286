"""Turns signals into an orderly end; the second one ends at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequest:
    """Cancels a task on the first request, and remembers what asked for it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.received_signal: signal.Signals | None = None
        self.on_stop: Callable[[], None] = lambda: None

    @property
    def exit_code(self) -> int:
        """The exit code by which shells know what ended a program."""
        return 128 + (self.received_signal or signal.SIGINT)

    def request(self, signal_number: signal.Signals) -> None:
        """Begin the end, or end at once if it has begun already: everything else dies with this process."""
        if self.received_signal is not None:
            if signal_number is not signal.SIGPIPE:
                _exit_immediately(128 + signal_number)
            return
        self.received_signal = signal_number
        self.on_stop()
        self._task.cancel()


def run_until_stopped(main: Coroutine[Any, Any, int]) -> int:
    """Run what listens to signals itself, by `stopping`; one that comes before it listens is heard then."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        return asyncio.run(main)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def handle_stop_signals() -> Iterator[StopRequest]:
    """Let signals cancel the current task, for as long as the context lasts."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stop = StopRequest(task)
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.request, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)


def _exit_immediately(code: int) -> None:
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[?25h")  # the live view had hidden the cursor
        sys.stdout.flush()
    os._exit(code)
