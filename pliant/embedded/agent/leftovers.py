"""Find what agents that were killed have left behind: each program of theirs has a mark in its environment."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from pliant.embedded.agent.family import beginning

VARIABLE = "PLIANT_AGENT"
_SOUGHT = f"{VARIABLE}=".encode()


def own_mark() -> str:
    """What tells the programs of this agent from those of all others, also of later ones with the same number."""
    return f"{_pids()}:{os.getpid()}:{beginning(os.getpid())}"


def sweep() -> int:
    """Kill programs of this user whose agent is no more; how many there were."""
    killed = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_left_over(name):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
                killed += 1
    return killed


def _is_left_over(process: str) -> bool:
    try:
        if os.stat(f"/proc/{process}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{process}/environ", "rb") as file:
            marks = [each for each in file.read().split(b"\0") if each.startswith(_SOUGHT)]
        words = marks[0].removeprefix(_SOUGHT).decode().split(":") if marks else []
    except (OSError, UnicodeDecodeError):
        return False  # it has just ended, or is not ours to look at
    # Numbers of another PID namespace mean other processes here.
    if len(words) != 3 or words[0] != _pids() or not (words[1] + words[2]).isdigit():
        return False
    return beginning(int(words[1])) != int(words[2])


def _pids() -> str:
    """The PID namespace of this process."""
    return str(os.stat("/proc/self/ns/pid").st_ino)
