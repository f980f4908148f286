"""The standard streams, also where they are closed, full or of a narrow character set."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TextIO


def repair_standard_streams() -> None:
    """Let no closed stream and no narrow character set end a command."""
    sys.stdout = sys.stdout or open_devnull()
    sys.stderr = sys.stderr or open_devnull()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def open_devnull() -> TextIO:
    """A stream that nobody reads."""
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def redirect_to_devnull(stream: TextIO) -> None:
    """Let what is still held back for a stream, and whatever is written to it, go nowhere: it could only fail."""
    with open_devnull() as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
