"""Limits that the kernel keeps: a control group for every container, where this machine lets us make some.

Elsewhere the first process of a container looks after its memory (`footprint`), and CPUs are all that limits time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn, NotRequired, TypedDict

_CGROUP_ROOT = "/sys/fs/cgroup"
_CGROUP_PREFIX = "pliant-"
_CONTROLLERS = b"+memory +cpu"
_CPU_PERIOD_US = 100_000
"""Microseconds over which time is shared out."""
_CLEANUP_TIMEOUT = 10.0
"""Seconds that processes may take to be gone after the agent has died."""


class ResourceLimits(TypedDict):
    """What a container may use."""

    memory: NotRequired[int]
    """Bytes that all its processes may hold together."""
    cpu: NotRequired[float]
    """Seconds of CPU in a second."""
    cell: NotRequired[str]
    """The control group that keeps these limits."""


class CgroupManager:
    """A folder of control groups of our own."""

    def __init__(self, parent_cgroup: str) -> None:
        self._parent_cgroup = parent_cgroup

    @classmethod
    def detect(cls, cgroup_root: str = _CGROUP_ROOT) -> CgroupManager | None:
        """The nearest place where groups can be made and entered; a process is left behind to clear them away.

        To be called before the agent has any children or enters any namespace.
        """
        for above in _ancestor_cgroups(cgroup_root):
            _remove_stale_cgroups(above)
            folder = f"{above}/{_CGROUP_PREFIX}{os.getpid()}"
            try:
                _create_parent_cgroup(above, folder)
            except OSError:
                _remove_cgroup_tree(folder)
            else:
                _fork_cleaner(folder)
                return cls(folder)
        return None

    def create_cgroup(self, container_name: str, limits: ResourceLimits) -> str:
        """A group with these limits for the processes of one container; empty if it needs none."""
        memory, cpu = limits.get("memory", 0), limits.get("cpu", 0.0)
        if not memory and not cpu:
            return ""
        group = f"{self._parent_cgroup}/{container_name.replace('/', '_')}"
        try:
            os.mkdir(group)
            if memory:
                _write_cgroup_file(f"{group}/memory.max", str(memory))
                _write_cgroup_file(f"{group}/memory.oom.group", "1")  # as nodes do: no half of a container goes on
                with suppress(OSError):  # not every kernel has it
                    _write_cgroup_file(f"{group}/memory.swap.max", "0")
            if cpu:
                _write_cgroup_file(f"{group}/cpu.max", f"{max(int(cpu * _CPU_PERIOD_US), 1000)} {_CPU_PERIOD_US}")
        except OSError:
            self.remove_cgroup(group)
            return ""  # somebody else looks after groups here, and has changed his mind
        return group

    def remove_cgroup(self, cgroup: str) -> None:
        """Take a group away whose processes are gone; one that lingers goes with the rest."""
        with suppress(OSError):
            os.rmdir(cgroup)


class ContainerCgroup:
    """The group of one container, if it has one, as its first process knows it from the outside."""

    def __init__(self, limits: ResourceLimits) -> None:
        self._path = limits.get("cell", "")
        has_memory = self._path and limits.get("memory", 0)
        # The file may be out of sight when it is needed.
        self._memory_events_fd = os.open(f"{self._path}/memory.events", os.O_RDONLY) if has_memory else -1

    @property
    def enforces_memory(self) -> bool:
        """Whether the kernel kills processes that hold too much."""
        return self._memory_events_fd >= 0

    def join(self) -> None:
        """Make this process, and all that it starts, belong to the group."""
        if self._path:
            _write_cgroup_file(f"{self._path}/cgroup.procs", "0")

    def was_oom_killed(self) -> bool:
        """Whether the kernel has killed processes of the group for their memory."""
        if self._memory_events_fd < 0:
            return False
        told = dict(line.split() for line in os.pread(self._memory_events_fd, 4096, 0).splitlines())
        return int(told.get(b"oom_kill", 0)) > 0


def _ancestor_cgroups(cgroup_root: str) -> Iterator[str]:
    """The group of this process and those above it, if there is one hierarchy for all limits."""
    if not os.path.exists(f"{cgroup_root}/cgroup.controllers"):
        return
    with open("/proc/self/cgroup") as file:
        own = next((line.strip()[3:] for line in file if line.startswith("0::")), "")
    while own not in ("", "/"):
        yield f"{cgroup_root}{own}"
        own = own.rpartition("/")[0]
    yield cgroup_root


def _create_parent_cgroup(ancestor: str, parent_cgroup: str) -> None:
    """Make a folder of groups that can limit, and try whether processes may enter one."""
    os.mkdir(parent_cgroup)
    if not _has_controllers(ancestor):
        _write_cgroup_file(f"{ancestor}/cgroup.subtree_control", _CONTROLLERS.decode())
    _write_cgroup_file(f"{parent_cgroup}/cgroup.subtree_control", _CONTROLLERS.decode())
    trial = f"{parent_cgroup}/trial"
    os.mkdir(trial)
    try:
        child = os.fork()
        if child == 0:
            _try_to_join(trial)
        _, status = os.waitpid(child, 0)
        if status:
            raise PermissionError(f"processes cannot enter {trial}")
    finally:
        os.rmdir(trial)


def _try_to_join(cgroup: str) -> NoReturn:
    try:
        ContainerCgroup({"cell": cgroup}).join()
    except OSError:
        os._exit(1)
    os._exit(0)


def _has_controllers(cgroup: str) -> bool:
    with open(f"{cgroup}/cgroup.subtree_control") as file:
        return {"memory", "cpu"} <= set(file.read().split())


def _fork_cleaner(parent_cgroup: str) -> None:
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
    end = time.monotonic() + _CLEANUP_TIMEOUT
    while not _remove_cgroup_tree(parent_cgroup) and time.monotonic() < end:
        time.sleep(0.05)  # nothing tells when the last process of a group is reaped
    os._exit(0)


def _remove_stale_cgroups(ancestor: str) -> None:
    """Remove what others have left whose cleaner was killed as well."""
    with suppress(OSError):
        for name in os.listdir(ancestor):
            owner = name.removeprefix(_CGROUP_PREFIX)
            if name.startswith(_CGROUP_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                _remove_cgroup_tree(f"{ancestor}/{name}")


def _remove_cgroup_tree(parent_cgroup: str) -> bool:
    """Remove a folder and the groups in it; whether nothing is left."""
    try:
        groups = [entry.path for entry in os.scandir(parent_cgroup) if entry.is_dir()]
    except OSError:
        return True
    for group in (*groups, parent_cgroup):
        with suppress(OSError):
            os.rmdir(group)
    return not os.path.exists(parent_cgroup)


def _write_cgroup_file(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
