"""What to try after a member of a run has failed: by the way it ended, and by its last words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pliant.cli.exitcodes import meaning_of
from pliant.model.observed import Exit

_MEMORY = "a smaller batch, or more memory in resources.limits"
_PROGRAMS = (
    "images are not run: programs are those on your PATH, so install it, or activate the environment that has it"
)
_WORDS = (
    (r"No module named '?(?P<name>[\w.]+)", "`{name}` is not there for this Python; " + _PROGRAMS),
    (r"executable file not found", "is it spelt well? " + _PROGRAMS),
    (r"command not found|: not found$", "is it spelt well? " + _PROGRAMS),
    (
        r"can't open file|No such file or directory",
        "programs start in the folder of the first FILE; --workspace DIR or workingDir names another",
    ),
    (r"CUDA out of memory|torch\.(cuda\.)?OutOfMemoryError", "a smaller batch, or more GPUs"),
    (r"MemoryError|Cannot allocate memory", _MEMORY),
    (r"No space left on device", "make room on the disk, or in /dev/shm"),
    (
        r"Address already in use|EADDRINUSE",
        "another process has this port; pods that share this machine's network each listen at $POD_IP",
    ),
    (
        r"Connection refused|Name or service not known|name resolution",
        "members start in any order: let the program try again for a while",
    ),
)
"""What is found in last lines, and what helps; the first that fits counts."""
TOLD_BY_CODE = 126
"""The lowest exit code that tells something of its own."""


def advice(end: Exit | None, tail: Sequence[str]) -> str:
    """The one thing most likely to help; empty where nothing is known."""
    if end is not None and end.reason == "OOMKilled":
        return _MEMORY
    said = "\n".join([*tail, end.message if end else ""])
    for pattern, help_ in _WORDS:
        if found := re.search(pattern, said, re.MULTILINE):
            return help_.format(**found.groupdict())
    return meaning_of(end) if end and end.code and end.code >= TOLD_BY_CODE else ""
