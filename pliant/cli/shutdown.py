"""Handles stop signals: the first one stops the command gracefully, the second one exits immediately."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

# Systems other than Linux lack some signals, and commands that need these.
STOP_SIGNALS = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
STOP_NOW_SIGNAL = getattr(signal, "SIGQUIT", signal.SIGTERM)
"""Stops a cluster of `pliant up` without waiting for its pods."""


class StopSignalHandler:
    """Cancels a task on the first stop signal and records which signal it was."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.received_signal: signal.Signals | None = None
        self.on_stop: Callable[[], None] = lambda: None

    @property
    def exit_code(self) -> int:
        """The exit code by which shells report the signal."""
        return 128 + (self.received_signal or signal.SIGINT)

    def handle_signal(self, signal_number: signal.Signals) -> None:
        """Start a graceful stop, or exit immediately if one is in progress."""
        if self.received_signal is not None:
            # When a session ends, systemd sends SIGHUP together with SIGTERM.
            if signal_number not in (signal.SIGPIPE, signal.SIGHUP):
                _exit_immediately(128 + signal_number)
            return
        self.received_signal = signal_number
        self.on_stop()
        self._task.cancel()


def run_with_signals_deferred(main: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine that uses `handle_stop_signals`; signals are blocked until it does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        return asyncio.run(main)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextmanager
def handle_stop_signals(*more: signal.Signals) -> Iterator[StopSignalHandler]:
    """Let stop signals, and more signals if given, cancel the current task inside the context."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    stop = StopSignalHandler(task)
    for number in (*STOP_SIGNALS, *more):
        loop.add_signal_handler(number, stop.handle_signal, number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        yield stop
    finally:
        for number in (*STOP_SIGNALS, *more):
            loop.remove_signal_handler(number)


def _exit_immediately(code: int) -> None:
    if sys.stdout.isatty():
        sys.stdout.write("\x1b[?25h")  # the live view hides the cursor
        sys.stdout.flush()
    os._exit(code)
