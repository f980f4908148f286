"""The event loop of the synchronous API: threads, interrupts and forks."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from typing import Any, TextIO

import pytest

from pliant.api.background_loop import BackgroundLoop, background


async def test_a_blocking_call_works_while_the_loop_of_a_notebook_runs() -> None:
    async def answer() -> int:
        return threading.get_ident()

    assert background.run(answer()) != threading.get_ident()


def test_a_call_from_the_background_thread_is_refused_instead_of_hanging() -> None:
    async def call_again() -> None:
        background.run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match=r"use `pliant\.aio`"):
        background.run(call_again())


def test_an_interrupt_cancels_the_call_and_waits_for_its_cleanup() -> None:
    loop, cleaned_up = BackgroundLoop(), []

    async def wait_forever() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(True)

    with pytest.raises(KeyboardInterrupt):
        loop.run(wait_forever())
    assert cleaned_up == [True]


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    background.run(asyncio.sleep(0))
    child = os.fork()
    if child == 0:
        background.run(asyncio.sleep(0))
        os._exit(7)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


class _NotifyingBuffer(io.BytesIO):
    """Tells when it is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, data: Any) -> int:
        self.written.set()
        return super().write(data)


def test_output_is_flushed_when_nothing_more_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = _NotifyingBuffer()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, "utf-8"))  # buffers lines, as a pipe does

    async def write(out: TextIO, err: TextIO) -> bool:
        out.write("step 1\n")
        err.write("a note\n")
        return await asyncio.to_thread(buffer.written.wait, 10)

    assert background.run_with_output(write)
