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

from pliant.cli.shortfalls import shortfall
from pliant.errors import NotPossibleHere, PliantError

Tell = Callable[[dict[str, Any]], None]
"""Passes one message to whoever waits for the work to come up; later ones are dropped."""


def start_detached(work: Callable[[Tell], int], log: Path) -> dict[str, Any]:
    """Run `work` in a process of its own that outlives this one; returns the first thing it tells."""
    sys.stdout.flush()
    sys.stderr.flush()
    hears, speaks = os.pipe()
    if os.fork() == 0:
        os.close(hears)
        _background(work, log, speaks)
    os.close(speaks)
    with os.fdopen(hears, "rb") as pipe:
        told = pipe.readline()
    message = json.loads(told) if told else {"error": "the background process ended before it was ready"}
    if "error" in message:
        raise NotPossibleHere(f"{message['error']}\nIts log: {log}")
    return dict(message)


def _background(work: Callable[[Tell], int], log: Path, speaks: int) -> None:
    """The child's whole life; never returns."""
    code = 1

    def tell(message: dict[str, Any]) -> None:
        nonlocal speaks
        if speaks >= 0:
            os.write(speaks, json.dumps(message).encode() + b"\n")
            os.close(speaks)
            speaks = -1

    try:
        os.setsid()
        _redirect(log)
        code = work(tell)
    except PliantError as error:
        tell({"error": str(error)})
    except BaseException as error:
        tell({"error": str(shortfall(error) or f"{type(error).__name__}: {error}")})
        traceback.print_exc()
    finally:
        with suppress(OSError):  # the log may be on a disk that is full
            sys.stdout.flush()
            sys.stderr.flush()
        # Not `sys.exit`: the parent's open files and exit handlers are not this process's to touch.
        os._exit(code)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, stream in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, stream)
    os.close(nothing)
    os.close(target)
