"""Measure the CPU time and memory of the processes of a container through /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pliant.embedded.agent.isolation.process_tree import read_stat_fields

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SECONDS_PER_TICK = 1 / os.sysconf("SC_CLK_TCK")
_COUNTED_PSS_FIELDS = (b"Pss_Anon:", b"Pss_Shmem:")


def list_namespace_pids() -> list[str]:
    """List all processes of this PID namespace except the first; none if /proc is that of the host."""
    if os.readlink("/proc/self") != str(os.getpid()):
        return []
    return [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def resident_bytes(pids: list[str]) -> int:
    """Return the resident memory of processes; a shared page counts for each of them."""
    return sum(map(_process_resident_bytes, pids))


def proportional_bytes(pids: list[str]) -> int:
    """Return the memory of processes, each shared page divided among its users.

    File-backed pages do not count, as the kernel can reclaim them.
    """
    return sum(map(_process_proportional_bytes, pids))


def _process_resident_bytes(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0  # It has just exited.


def _process_proportional_bytes(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = [line.split() for line in file]
    except OSError:
        return _process_resident_bytes(pid)
    return sum(int(fields[1]) << 10 for fields in lines if fields[0] in _COUNTED_PSS_FIELDS)


class ProcessTable:
    """A snapshot of the CPU times and parents of all processes in a /proc directory."""

    def __init__(self, proc_dir: str) -> None:
        self._proc_dir = proc_dir
        self._cpu_ticks: dict[int, tuple[int, int]] = {}
        """Clock ticks of each process itself, and of its reaped children."""
        self._children: dict[int, list[int]] = {}
        for name in os.listdir(proc_dir):
            if name.isdigit() and (fields := read_stat_fields(int(name), proc_dir)):
                self._cpu_ticks[int(name)] = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
                self._children.setdefault(int(fields[1]), []).append(int(name))

    def descendants_cpu_and_memory(self, root_pid: int) -> tuple[float, int]:
        """Return the CPU seconds and the bytes of private memory of all descendants of a process."""
        ticks = self._cpu_ticks.get(root_pid, (0, 0))[1]
        memory = 0
        for pid in self._descendants(root_pid):
            ticks += sum(self._cpu_ticks[pid])
            memory += self._private_bytes(pid)
        return ticks * _SECONDS_PER_TICK, memory

    def _descendants(self, root_pid: int) -> Iterator[int]:
        for pid in self._children.get(root_pid, ()):
            yield pid
            yield from self._descendants(pid)

    def _private_bytes(self, pid: int) -> int:
        try:
            with open(f"{self._proc_dir}/{pid}/statm", "rb") as file:
                fields = file.read().split()
        except OSError:
            return 0
        return (int(fields[1]) - int(fields[2])) * _PAGE_BYTES
