"""Runs a function in a background process and waits until it is ready."""

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

NotifyReady = Callable[[dict[str, Any]], None]  # sends one message to the waiting parent; later messages are dropped


def start_detached(work: Callable[[NotifyReady], int], log_file: Path) -> dict[str, Any]:
    """Run `work` in a background process that outlives this one; return its ready message."""
    sys.stdout.flush()
    sys.stderr.flush()
    read_fd, write_fd = os.pipe()
    if os.fork() == 0:
        os.close(read_fd)
        _run_child(work, log_file, write_fd)
    os.close(write_fd)
    with os.fdopen(read_fd, "rb") as pipe:
        line = pipe.readline()
    message = json.loads(line) if line else {"error": "the background process ended before it was ready"}
    if "error" in message:
        raise UnsupportedEnvironment(f"{message['error']}\nLog: {log_file}")
    return dict(message)


def _run_child(work: Callable[[NotifyReady], int], log_file: Path, ready_fd: int) -> None:
    code = 1

    def notify(message: dict[str, Any]) -> None:
        nonlocal ready_fd
        if ready_fd >= 0:
            os.write(ready_fd, json.dumps(message).encode() + b"\n")
            os.close(ready_fd)
            ready_fd = -1

    try:
        os.setsid()
        _redirect_stdio(log_file)
        code = work(notify)
    except PliantError as error:
        notify({"error": str(error)})
    except BaseException as error:
        notify({"error": str(explain_os_error(error) or f"{type(error).__name__}: {error}")})
        traceback.print_exc()
    finally:
        with suppress(OSError):  # the disk of the log file may be full
            sys.stdout.flush()
            sys.stderr.flush()
        # Not `sys.exit`: it would run the exit handlers of the parent.
        os._exit(code)


def _redirect_stdio(log_file: Path) -> None:
    devnull = os.open(os.devnull, os.O_RDONLY)
    target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, stream in ((devnull, 0), (target, 1), (target, 2)):
        os.dup2(source, stream)
    os.close(devnull)
    os.close(target)
