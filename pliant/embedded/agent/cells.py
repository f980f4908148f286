"""Limits that the kernel keeps: a control group for every container, where this machine lets us make some.

Elsewhere the first process of a container looks after its memory (`footprint`), and CPUs are all that limits time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn, NotRequired, TypedDict

_TREE = "/sys/fs/cgroup"
_PREFIX = "pliant-"
_WANTED = b"+memory +cpu"
_PERIOD = 100_000
"""Microseconds over which time is shared out."""
_PATIENCE = 10.0
"""Seconds that processes may take to be gone after the agent has died."""


class Limits(TypedDict):
    """What a container may use."""

    memory: NotRequired[int]
    """Bytes that all its processes may hold together."""
    cpu: NotRequired[float]
    """Seconds of CPU in a second."""
    cell: NotRequired[str]
    """The control group that keeps these limits."""


class Cells:
    """A folder of control groups of our own."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def found(cls, tree: str = _TREE) -> Cells | None:
        """The nearest place where groups can be made and entered; a process is left behind to clear them away.

        To be called before the agent has any children or enters any namespace.
        """
        for above in _ancestors(tree):
            _sweep(above)
            folder = f"{above}/{_PREFIX}{os.getpid()}"
            try:
                _open_up(above, folder)
            except OSError:
                _remove(folder)
            else:
                _leave_cleaner(folder)
                return cls(folder)
        return None

    def make(self, name: str, limits: Limits) -> str:
        """A group with these limits for the processes of one container; empty if it needs none."""
        memory, cpu = limits.get("memory", 0), limits.get("cpu", 0.0)
        if not memory and not cpu:
            return ""
        group = f"{self._folder}/{name.replace('/', '_')}"
        try:
            os.mkdir(group)
            if memory:
                _write(f"{group}/memory.max", str(memory))
                _write(f"{group}/memory.oom.group", "1")  # as nodes do: no half of a container goes on
                with suppress(OSError):  # not every kernel has it
                    _write(f"{group}/memory.swap.max", "0")
            if cpu:
                _write(f"{group}/cpu.max", f"{max(int(cpu * _PERIOD), 1000)} {_PERIOD}")
        except OSError:
            self.remove(group)
            return ""  # somebody else looks after groups here, and has changed his mind
        return group

    def remove(self, group: str) -> None:
        """Take a group away whose processes are gone; one that lingers goes with the rest."""
        with suppress(OSError):
            os.rmdir(group)


class Cell:
    """The group of one container, if it has one, as its first process knows it from the outside."""

    def __init__(self, limits: Limits) -> None:
        self._group = limits.get("cell", "")
        has_memory = self._group and limits.get("memory", 0)
        # The file may be out of sight when it is needed.
        self._events = os.open(f"{self._group}/memory.events", os.O_RDONLY) if has_memory else -1

    @property
    def keeps_memory(self) -> bool:
        """Whether the kernel kills processes that hold too much."""
        return self._events >= 0

    def join(self) -> None:
        """Make this process, and all that it starts, belong to the group."""
        if self._group:
            _write(f"{self._group}/cgroup.procs", "0")

    def has_killed(self) -> bool:
        """Whether the kernel has killed processes of the group for their memory."""
        if self._events < 0:
            return False
        told = dict(line.split() for line in os.pread(self._events, 4096, 0).splitlines())
        return int(told.get(b"oom_kill", 0)) > 0


def _ancestors(tree: str) -> Iterator[str]:
    """The group of this process and those above it, if there is one hierarchy for all limits."""
    if not os.path.exists(f"{tree}/cgroup.controllers"):
        return
    with open("/proc/self/cgroup") as file:
        own = next((line.strip()[3:] for line in file if line.startswith("0::")), "")
    while own not in ("", "/"):
        yield f"{tree}{own}"
        own = own.rpartition("/")[0]
    yield tree


def _open_up(above: str, folder: str) -> None:
    """Make a folder of groups that can limit, and try whether processes may enter one."""
    os.mkdir(folder)
    if not _has_limits(above):
        _write(f"{above}/cgroup.subtree_control", _WANTED.decode())
    _write(f"{folder}/cgroup.subtree_control", _WANTED.decode())
    trial = f"{folder}/trial"
    os.mkdir(trial)
    try:
        child = os.fork()
        if child == 0:
            _try_to_enter(trial)
        _, status = os.waitpid(child, 0)
        if status:
            raise PermissionError(f"processes cannot enter {trial}")
    finally:
        os.rmdir(trial)


def _try_to_enter(group: str) -> NoReturn:
    try:
        Cell({"cell": group}).join()
    except OSError:
        os._exit(1)
    os._exit(0)


def _has_limits(group: str) -> bool:
    with open(f"{group}/cgroup.subtree_control") as file:
        return {"memory", "cpu"} <= set(file.read().split())


def _leave_cleaner(folder: str) -> None:
    """Start a process that outlives this one by as long as it takes to remove what it has made."""
    waiting, _held = os.pipe()
    if child := os.fork():
        os.close(waiting)
        os.waitpid(child, 0)
        return  # the other end is ours until we die
    os.setsid()
    if os.fork():
        os._exit(0)  # an agent may end all that descend from it: this one must not
    os.closerange(waiting + 1, 1 << 16)
    os.closerange(0, waiting)
    os.read(waiting, 1)
    end = time.monotonic() + _PATIENCE
    while not _remove(folder) and time.monotonic() < end:
        time.sleep(0.05)  # nothing tells when the last process of a group is reaped
    os._exit(0)


def _sweep(above: str) -> None:
    """Remove what others have left whose cleaner was killed as well."""
    with suppress(OSError):
        for name in os.listdir(above):
            owner = name.removeprefix(_PREFIX)
            if name.startswith(_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                _remove(f"{above}/{name}")


def _remove(folder: str) -> bool:
    """Remove a folder and the groups in it; whether nothing is left."""
    try:
        groups = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    except OSError:
        return True
    for group in (*groups, folder):
        with suppress(OSError):
            os.rmdir(group)
    return not os.path.exists(folder)


def _write(path: str, words: str) -> None:
    with open(path, "w") as file:
        file.write(words)
