"""Makes the standard streams safe to write to, also if they are closed or cannot encode all characters."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO


def repair_standard_streams() -> None:
    sys.stdout = sys.stdout or open_devnull()
    sys.stderr = sys.stderr or open_devnull()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def open_devnull() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def redirect_to_devnull(stream: TextIO) -> None:
    """Redirect a stream to /dev/null, so that flushing its buffer cannot fail again."""
    with open_devnull() as devnull:
        os.dup2(devnull.fileno(), stream.fileno())


def write_line(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
