"""Runs `make` in this folder, as an ordinary user would."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cli.ordinary_user import ROOT, Ended, OrdinaryUser, finished, identity


def start_make(
    user: OrdinaryUser, words: Sequence[str], variables: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start `make` with these verbs and settings; with all it starts it is one group, as in a terminal."""
    streams: dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    chosen = {name: os.environ[name] for name in ("PLIANT_VENV",) if name in os.environ}
    env = {**user.environment, **chosen, **variables}
    command = ["make", *words]
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, start_new_session=True, **identity(), **streams)


def made(user: OrdinaryUser, *words: str, **variables: str) -> Ended:
    """Run `make` to its end, without a terminal."""
    with start_make(user, words, variables) as process:
        return finished(process)


def make_typed(user: OrdinaryUser, answer: str, *words: str, **variables: str) -> Ended:
    """Run `make` on a terminal where a user has typed this."""
    terminal, stdin = os.openpty()
    try:
        os.write(terminal, answer.encode())
        with start_make(user, words, variables, stdin) as process:
            return finished(process)
    finally:
        os.close(stdin)
        os.close(terminal)


@contextmanager
def making(user: OrdinaryUser, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`make` in the foreground of a terminal, until Ctrl-C; the operator in it must have stopped in good order."""
    with start_make(user, words, variables) as process:
        try:
            yield process
            assert process.poll() is None, process.communicate()
            os.killpg(process.pid, signal.SIGINT)
            ended = finished(process)
        finally:
            process.kill()
    assert "operator stopped reason=SIGINT" in ended.err
    assert "Traceback" not in ended.err
