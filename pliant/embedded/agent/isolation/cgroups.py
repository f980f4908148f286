"""Resource limits enforced by the kernel: a cgroup for each container, where the agent may create cgroups.

Elsewhere the container shim enforces the memory limit (`MemoryWatchdog`), and CPU affinity approximates the CPU limit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NoReturn

from pliant.embedded.agent.container.config import ResourceLimits

_CGROUP_ROOT = "/sys/fs/cgroup"
_CGROUP_PREFIX = "pliant-"
_CONTROLLERS = "+memory +cpu"
_CPU_PERIOD_US = 100_000
_CLEANUP_TIMEOUT = 10.0
"""Seconds to wait for processes to exit after the agent has exited."""


class CgroupManager:
    """Creates and removes the cgroups of containers below one parent cgroup."""

    def __init__(self, parent_cgroup: str) -> None:
        self._parent_cgroup = parent_cgroup

    @classmethod
    def create_if_permitted(cls, cgroup_root: str = _CGROUP_ROOT) -> CgroupManager | None:
        """Return a manager for the nearest cgroup in which cgroups can be created and joined, or None.

        A cleaner process removes the cgroups when the agent exits. Must be called before the agent has children or
        enters a namespace.
        """
        for ancestor in _ancestor_cgroups(cgroup_root):
            _remove_stale_cgroups(ancestor)
            parent_cgroup = f"{ancestor}/{_CGROUP_PREFIX}{os.getpid()}"
            try:
                _create_parent_cgroup(ancestor, parent_cgroup)
            except OSError:
                _remove_cgroup_tree(parent_cgroup)
            else:
                _fork_cleaner(parent_cgroup)
                return cls(parent_cgroup)
        return None

    def create_cgroup(self, container_name: str, limits: ResourceLimits) -> str:
        """Create a cgroup with these limits and return its path; return an empty string if there are no limits."""
        memory, cpu = limits.get("memory_limit", 0), limits.get("cpu_limit", 0.0)
        if not memory and not cpu:
            return ""
        cgroup = f"{self._parent_cgroup}/{container_name.replace('/', '_')}"
        try:
            os.mkdir(cgroup)
            if memory:
                _write_cgroup_file(f"{cgroup}/memory.max", str(memory))
                _write_cgroup_file(f"{cgroup}/memory.oom.group", "1")  # Kill the whole container, as a kubelet does.
                with suppress(OSError):  # Not every kernel has it.
                    _write_cgroup_file(f"{cgroup}/memory.swap.max", "0")
            if cpu:
                _write_cgroup_file(f"{cgroup}/cpu.max", f"{max(int(cpu * _CPU_PERIOD_US), 1000)} {_CPU_PERIOD_US}")
        except OSError:
            self.remove_cgroup(cgroup)
            return ""  # Another cgroup manager has withdrawn the permission.
        return cgroup

    def remove_cgroup(self, cgroup: str) -> None:
        """Remove the cgroup of a container that has exited; the cleaner removes one that is still in use."""
        with suppress(OSError):
            os.rmdir(cgroup)


class AssignedCgroup:
    """The cgroup of one container, if it has one, as seen by its shim, which is not in it."""

    def __init__(self, limits: ResourceLimits) -> None:
        self._path = limits.get("cgroup", "")
        has_memory_limit = self._path and limits.get("memory_limit", 0)
        # Opened now: the path may not be visible later.
        self._memory_events_fd = os.open(f"{self._path}/memory.events", os.O_RDONLY) if has_memory_limit else -1

    @property
    def enforces_memory(self) -> bool:
        """Whether the kernel enforces a memory limit."""
        return self._memory_events_fd >= 0

    def join(self) -> None:
        """Move this process, and all that it starts, into the cgroup."""
        if self._path:
            _write_cgroup_file(f"{self._path}/cgroup.procs", "0")

    def was_oom_killed(self) -> bool:
        if self._memory_events_fd < 0:
            return False
        events = dict(line.split() for line in os.pread(self._memory_events_fd, 4096, 0).splitlines())
        return int(events.get(b"oom_kill", 0)) > 0


def _ancestor_cgroups(cgroup_root: str) -> Iterator[str]:
    """Yield the cgroup of this process and its ancestors, if the machine has cgroup v2."""
    if not os.path.exists(f"{cgroup_root}/cgroup.controllers"):
        return
    with open("/proc/self/cgroup") as file:
        own = next((line.strip()[3:] for line in file if line.startswith("0::")), "")
    while own not in ("", "/"):
        yield f"{cgroup_root}{own}"
        own = own.rpartition("/")[0]
    yield cgroup_root


def _create_parent_cgroup(ancestor: str, parent_cgroup: str) -> None:
    """Create a parent cgroup with the controllers enabled, and test that processes can join its children."""
    os.mkdir(parent_cgroup)
    with open(f"{ancestor}/cgroup.subtree_control") as file:
        has_controllers = {"memory", "cpu"} <= set(file.read().split())
    if not has_controllers:
        _write_cgroup_file(f"{ancestor}/cgroup.subtree_control", _CONTROLLERS)
    _write_cgroup_file(f"{parent_cgroup}/cgroup.subtree_control", _CONTROLLERS)
    trial = f"{parent_cgroup}/trial"
    os.mkdir(trial)
    try:
        child = os.fork()
        if child == 0:
            _try_to_join(trial)
        _, status = os.waitpid(child, 0)
        if status:
            raise PermissionError(f"processes cannot join {trial}")
    finally:
        os.rmdir(trial)


def _try_to_join(cgroup: str) -> NoReturn:
    try:
        AssignedCgroup({"cgroup": cgroup}).join()
    except OSError:
        os._exit(1)
    os._exit(0)


def _fork_cleaner(parent_cgroup: str) -> None:
    """Start a process that removes the cgroups when this process exits."""
    exit_fd, _held_open = os.pipe()
    if child := os.fork():
        os.close(exit_fd)
        os.waitpid(child, 0)
        return  # The kernel closes the other end when this process exits.
    os.setsid()
    if os.fork():
        os._exit(0)  # The cleaner must not be a descendant: an agent may kill its descendants.
    os.closerange(exit_fd + 1, 1 << 16)
    os.closerange(0, exit_fd)
    os.read(exit_fd, 1)
    deadline = time.monotonic() + _CLEANUP_TIMEOUT
    while not _remove_cgroup_tree(parent_cgroup) and time.monotonic() < deadline:
        time.sleep(0.05)  # The kernel does not notify when the last process of a cgroup is reaped.
    os._exit(0)


def _remove_stale_cgroups(ancestor: str) -> None:
    """Remove the cgroups of agents that exited and whose cleaner was killed."""
    with suppress(OSError):
        for name in os.listdir(ancestor):
            owner = name.removeprefix(_CGROUP_PREFIX)
            if name.startswith(_CGROUP_PREFIX) and owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
                _remove_cgroup_tree(f"{ancestor}/{name}")


def _remove_cgroup_tree(parent_cgroup: str) -> bool:
    """Remove a cgroup and its children; return whether all are removed."""
    try:
        cgroups = [entry.path for entry in os.scandir(parent_cgroup) if entry.is_dir()]
    except OSError:
        return True
    for cgroup in (*cgroups, parent_cgroup):
        with suppress(OSError):
            os.rmdir(cgroup)
    return not os.path.exists(parent_cgroup)


def _write_cgroup_file(path: str, value: str) -> None:
    with open(path, "w") as file:
        file.write(value)
