"""How much memory the processes of a container use that nobody else could give back."""

from __future__ import annotations

import os

_PAGE = os.sysconf("SC_PAGE_SIZE")
_COUNTED = (b"Pss_Anon:", b"Pss_Shmem:")


def is_seen() -> bool:
    """Whether /proc shows this process's own namespace, of which it is the first."""
    return os.readlink("/proc/self") == str(os.getpid())


def everybody() -> list[str]:
    """All processes of this namespace but the first."""
    return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def resident(processes: list[str]) -> int:
    """Bytes that some processes have in memory; what they share counts for each."""
    return sum(map(_resident, processes))


def held(processes: list[str]) -> int:
    """Bytes that some processes hold together.

    Pages of files are left out, as the kernel takes them back when it must, and a shared page is shared among its
    users.
    """
    return sum(map(_held, processes))


def _resident(process: str) -> int:
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0  # it has just ended


def _held(process: str) -> int:
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return _resident(process)
    return sum(int(words[1]) << 10 for words in lines if words[0] in _COUNTED)
