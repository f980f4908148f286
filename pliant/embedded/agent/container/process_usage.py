"""How much memory the processes of a container use that nobody else could give back."""

from __future__ import annotations

import os
from collections.abc import Iterator

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_COUNTED_PSS_FIELDS = (b"Pss_Anon:", b"Pss_Shmem:")


def is_proc_of_own_namespace() -> bool:
    """Whether /proc shows this process's own namespace, of which it is the first."""
    return os.readlink("/proc/self") == str(os.getpid())


def list_namespace_pids() -> list[str]:
    """All processes of this namespace but the first."""
    return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def resident_bytes(pids: list[str]) -> int:
    """Bytes that some processes have in memory; what they share counts for each."""
    return sum(map(_process_resident_bytes, pids))


def proportional_bytes(pids: list[str]) -> int:
    """Bytes that some processes hold together.

    Pages of files are left out, as the kernel takes them back when it must, and a shared page is shared among its
    users.
    """
    return sum(map(_process_proportional_bytes, pids))


def _process_resident_bytes(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0  # it has just ended


def _process_proportional_bytes(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return _process_resident_bytes(pid)
    return sum(int(words[1]) << 10 for words in lines if words[0] in _COUNTED_PSS_FIELDS)


_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_SECONDS_PER_TICK = 1 / os.sysconf("SC_CLK_TCK")


class ProcessTable:
    """All processes of this moment, as a mounted /proc shows them."""

    def __init__(self, proc_dir: str) -> None:
        self._proc_dir = proc_dir
        self._times: dict[int, tuple[int, int]] = {}
        """Of each process: clock ticks of its own, and of children that it has outlived."""
        self._children: dict[int, list[int]] = {}
        for name in os.listdir(proc_dir):
            if name.isdigit():
                self._read_process(int(name))

    def usage_of_descendants(self, root_pid: int) -> tuple[float, int]:
        """Seconds of CPU and bytes of private memory of all that descend from a process, itself left out."""
        ticks = self._times.get(root_pid, (0, 0))[1]
        memory = 0
        for process in self._descendants(root_pid):
            ticks += sum(self._times[process])
            memory += self._private_bytes(process)
        return ticks * _SECONDS_PER_TICK, memory

    def _read_process(self, pid: int) -> None:
        try:
            with open(f"{self._proc_dir}/{pid}/stat", "rb") as file:
                # The name may hold anything, blanks and brackets included.
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            return  # it has just ended
        self._times[pid] = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
        self._children.setdefault(int(words[1]), []).append(pid)

    def _descendants(self, root_pid: int) -> Iterator[int]:
        for process in self._children.get(root_pid, ()):
            yield process
            yield from self._descendants(process)

    def _private_bytes(self, pid: int) -> int:
        try:
            with open(f"{self._proc_dir}/{pid}/statm", "rb") as file:
                words = file.read().split()
        except OSError:
            return 0
        return (int(words[1]) - int(words[2])) * _PAGE_SIZE
