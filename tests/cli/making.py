"""Runs `make` in this folder, as an ordinary user would."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.ordinary_user import ROOT, Ended, OrdinaryUser, finished, identity


def make_started(user: OrdinaryUser, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `make` with these verbs and settings; with all it starts it is one group, as in a terminal."""
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    chosen = {name: os.environ[name] for name in ("PLIANT_VENV",) if name in os.environ}
    env = {**user.environment, **chosen, **variables}
    return subprocess.Popen(["make", *words], cwd=ROOT, env=env, text=True, **identity(), **streams)


def made(user: OrdinaryUser, *words: str, **variables: str) -> Ended:
    """Run `make` to its end."""
    with make_started(user, *words, **variables) as process:
        return finished(process)


@contextmanager
def making(user: OrdinaryUser, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`make` in the foreground of a terminal, until Ctrl-C; the operator in it must have stopped in good order."""
    with make_started(user, *words, **variables) as process:
        try:
            yield process
            assert process.poll() is None, process.communicate()
            os.killpg(process.pid, signal.SIGINT)
            ended = finished(process)
        finally:
            process.kill()
    assert "operator stopped because=SIGINT" in ended.err
    assert "Traceback" not in ended.err
