"""What can be seen of a cluster's processes from the machine it runs on."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

PATIENCE = 10.0


def processes_marked(mark: str) -> dict[int, str]:
    """Running processes with this word in their environment: ids and command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def descendants(root: int) -> list[int]:
    """Every process below one."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found[1:]


def expect_gone(processes: Iterable[int]) -> None:
    """Wait for each of these to end."""
    for process in processes:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(process)
            try:
                assert select.select([handle], [], [], PATIENCE)[0], f"process {process} is still there"
            finally:
                os.close(handle)


def networks(processes: Iterable[int]) -> set[str]:
    """The network namespaces in which these live."""
    found = set()
    for process in processes:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{process}/ns/net").readlink()))
    return found


def every_process() -> list[int]:
    """All there are."""
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def cpu_ticks(process: int) -> int:
    """The processor time a process has used so far, in hundredths of a second."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


def wake_ups(process: int) -> int:
    """How often the threads of a process have gone to sleep and been woken so far."""
    words = "voluntary_ctxt_switches:"
    statuses = [task.read_text() for task in Path(f"/proc/{process}/task").glob("*/status")]
    return sum(int(line.split()[1]) for text in statuses for line in text.splitlines() if line.startswith(words))
