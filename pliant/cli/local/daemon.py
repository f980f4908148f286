"""Starts a piece of work in the background and hears whether it came up."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pliant.cli.explain.os_errors import explain_os_error
from pliant.errors import PliantError, UnsupportedEnvironment

NotifyReady = Callable[[dict[str, Any]], None]
"""Passes one message to whoever waits for the work to come up; later ones are dropped."""


def start_detached(work: Callable[[NotifyReady], int], log_file: Path) -> dict[str, Any]:
    """Run `work` in a process of its own that outlives this one; returns the first thing it tells."""
    sys.stdout.flush()
    sys.stderr.flush()
    hears, speaks = os.pipe()
    if os.fork() == 0:
        os.close(hears)
        _run_child(work, log_file, speaks)
    os.close(speaks)
    with os.fdopen(hears, "rb") as pipe:
        told = pipe.readline()
    message = json.loads(told) if told else {"error": "the background process ended before it was ready"}
    if "error" in message:
        raise UnsupportedEnvironment(f"{message['error']}\nIts log: {log_file}")
    return dict(message)


def _run_child(work: Callable[[NotifyReady], int], log_file: Path, ready_fd: int) -> None:
    """The child's whole life; never returns."""
    code = 1

    def tell(message: dict[str, Any]) -> None:
        nonlocal ready_fd
        if ready_fd >= 0:
            os.write(ready_fd, json.dumps(message).encode() + b"\n")
            os.close(ready_fd)
            ready_fd = -1

    try:
        os.setsid()
        _redirect_stdio(log_file)
        code = work(tell)
    except PliantError as error:
        tell({"error": str(error)})
    except BaseException as error:
        tell({"error": str(explain_os_error(error) or f"{type(error).__name__}: {error}")})
        traceback.print_exc()
    finally:
        with suppress(OSError):  # the log may be on a disk that is full
            sys.stdout.flush()
            sys.stderr.flush()
        # Not `sys.exit`: the parent's open files and exit handlers are not this process's to touch.
        os._exit(code)


def _redirect_stdio(log_file: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, stream in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, stream)
    os.close(nothing)
    os.close(target)
