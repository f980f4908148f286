"""Runs coroutines on an event loop in a background thread, so that notebooks and scripts can wait for them."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from io import TextIOBase
from typing import Any, NamedTuple, TextIO, TypeVar, cast

T = TypeVar("T")

EXIT_TIMEOUT_SECONDS = 20.0
"""How long the end of the process waits for clusters to stop; the kernel ends what is left."""


class _Output(NamedTuple):
    """Text for a stream of the caller."""

    is_error: bool
    text: str


_Outputs = queue.SimpleQueue[_Output | None]
"""What a coroutine writes; None marks its end."""


class _QueuedStream(TextIOBase):
    """Hands what is written to the thread of the caller: notebooks show the output of that thread at its cell."""

    def __init__(self, outputs: _Outputs, *, is_error: bool) -> None:
        self._outputs = outputs
        self._is_error = is_error

    def write(self, text: str) -> int:
        self._outputs.put(_Output(self._is_error, text))
        return len(text)

    def isatty(self) -> bool:
        return (sys.stderr if self._is_error else sys.stdout).isatty()


class BackgroundLoop:
    """An event loop in a daemon thread, which starts when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closers: set[Callable[[], Coroutine[Any, Any, None]]] = set()
        """Stop what is still open when the process ends."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; an interrupt cancels it and waits until it has cleaned up."""
        return self._run(coroutine, queue.SimpleQueue())

    def run_with_output(self, start: Callable[[TextIO, TextIO], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine that writes to two streams; the thread of the caller prints what it writes."""
        outputs: _Outputs = queue.SimpleQueue()
        out, err = _QueuedStream(outputs, is_error=False), _QueuedStream(outputs, is_error=True)
        return self._run(start(cast("TextIO", out), cast("TextIO", err)), outputs)

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate over an async generator, and close it when the iteration ends."""
        try:
            while (item := self.run(_next_item(items))) is not None:
                yield item
        finally:
            self.run(items.aclose())

    def close(self) -> None:
        """Stop what is open, and wait for it; called when the process ends."""
        if self._loop is not None and self._thread is not None and self._thread.is_alive():
            closing = asyncio.run_coroutine_threadsafe(self._close_all(), self._loop)
            with suppress(Exception):  # the kernel ends the pods with this process
                closing.result(EXIT_TIMEOUT_SECONDS)

    async def _close_all(self) -> None:
        await asyncio.gather(*(close() for close in self.closers), return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, coroutine: Coroutine[Any, Any, T], outputs: _Outputs) -> T:
        loop = self._ensure_started(coroutine)
        result: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            task = loop.create_task(coroutine)
            tasks.append(task)
            self._tasks.add(task)
            task.add_done_callback(finish)

        def finish(task: asyncio.Task[T]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                result.cancel()
            elif (error := task.exception()) is not None:
                result.set_exception(error)
            else:
                result.set_result(task.result())
            outputs.put(None)

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # interrupted before it was scheduled
                coroutine.close()
                outputs.put(None)

        try:
            loop.call_soon_threadsafe(start)
            _print_until_end(outputs)
        except BaseException:  # an interrupt, or a closed standard output
            loop.call_soon_threadsafe(cancel)
            _discard_until_end(outputs)
            raise
        return result.result()

    def _ensure_started(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        with self._lock:
            if threading.current_thread() is self._thread:
                coroutine.close()
                raise RuntimeError("this function would wait for itself; in coroutines of Pliant use `pliant.aio`")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: a program ends although a cluster is open; `stop` then stops the cluster.
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="pliant-event-loop", daemon=True
                )
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


async def _next_item(items: AsyncGenerator[T, None]) -> T | None:
    return await anext(items, None)


def _print_until_end(outputs: _Outputs) -> None:
    while (output := outputs.get()) is not None:
        (sys.stderr if output.is_error else sys.stdout).write(output.text)
        if outputs.empty():
            sys.stdout.flush()
            sys.stderr.flush()


def _discard_until_end(outputs: _Outputs) -> None:
    while outputs.get() is not None:
        pass


background = BackgroundLoop()
"""The loop of the synchronous API."""


def _replace_after_fork() -> None:
    """Give a forked child a loop of its own: it inherits no threads. The clusters stay with the parent."""
    background.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_replace_after_fork)
atexit.register(background.close)
