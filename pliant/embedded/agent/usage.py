"""How much time and memory the processes below another one use."""

from __future__ import annotations

import os
from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Processes:
    """All processes of this moment, as a mounted /proc shows them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._times: dict[int, tuple[int, int]] = {}
        """Of each process: clock ticks of its own, and of children that it has outlived."""
        self._children: dict[int, list[int]] = {}
        for name in os.listdir(folder):
            if name.isdigit():
                self._look_at(int(name))

    def below(self, first: int) -> tuple[float, int]:
        """Seconds of CPU and bytes of private memory of all that descend from a process, itself left out."""
        ticks = self._times.get(first, (0, 0))[1]
        memory = 0
        for process in self._descendants(first):
            ticks += sum(self._times[process])
            memory += self._held(process)
        return ticks * _TICK, memory

    def _look_at(self, process: int) -> None:
        try:
            with open(f"{self._folder}/{process}/stat", "rb") as file:
                # The name may hold anything, blanks and brackets included.
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            return  # it has just ended
        self._times[process] = int(words[11]) + int(words[12]), int(words[13]) + int(words[14])
        self._children.setdefault(int(words[1]), []).append(process)

    def _descendants(self, first: int) -> Iterator[int]:
        for process in self._children.get(first, ()):
            yield process
            yield from self._descendants(process)

    def _held(self, process: int) -> int:
        try:
            with open(f"{self._folder}/{process}/statm", "rb") as file:
                words = file.read().split()
        except OSError:
            return 0
        return (int(words[1]) - int(words[2])) * _PAGE
