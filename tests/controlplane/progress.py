"""What a long build says while it runs, and how it says that it cannot go on."""

from __future__ import annotations

import ctypes
import functools
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PULSE_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class BuildError(Exception):
    """A build that cannot go on; the message says what to do."""


def print_progress(line: str) -> None:
    """Tell people something; the standard output is for programs."""
    print(line, file=sys.stderr, flush=True)


def run_with_progress(
    what: str,
    command: list[str | Path],
    folder: Path,
    env: dict[str, str],
    tell: Callable[[str], None] = print_progress,
) -> float:
    """Run a command to its end, with a sign of life now and then; how many seconds it took."""
    log = folder / "log"
    die_with_us = functools.partial(_LIBC.prctl, _PR_SET_PDEATHSIG, signal.SIGKILL)
    began = time.monotonic()
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_us,
        ) as process,
    ):
        try:
            while True:
                try:
                    process.wait(PULSE_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    tell(f"  {what}: {time.monotonic() - began:.0f} s so far…")
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildError(f"{what}: `{' '.join(map(str, command))}` failed:\n{last}")
    return time.monotonic() - began
