"""The processes that descend from one, found in /proc: for where no namespace holds them together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

_DEAD_STATES = b"ZX"
_POLL_INTERVAL = 0.002
_KILL_TIMEOUT = 5.0
"""Seconds for processes to go that were killed; the kernel may hold one back that waits for a device."""
_MAX_SIGNAL_ROUNDS = 5
"""How often to look for processes that were made while others were stopped."""


def list_descendants(root_pid: int) -> list[int]:
    """Every process that descends from one and has not ended, the nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _read_state_and_parent(int(name))
            if state not in _DEAD_STATES:
                children.setdefault(parent, []).append(int(name))
    found = children.get(root_pid, [])
    for each in found:
        found += children.get(each, ())
    return found


def list_descendants_fast(root_pid: int) -> list[int]:
    """The same at little cost: some may be missed that begin or end at this moment."""
    found = [root_pid]
    try:
        for each in found:
            found += _read_child_pids(each)
    except FileNotFoundError:
        return list_descendants(root_pid)
    return found[1:]


def signal_descendants(root_pid: int, signal_number: int) -> None:
    """Send a signal to all that descend from a process; those that are made meanwhile get it, too."""
    reached: set[int] = set()
    for _ in range(_MAX_SIGNAL_ROUNDS):
        fresh = [each for each in list_descendants(root_pid) if each not in reached]
        if not fresh:
            return
        for each in fresh:
            _send_signal(each, signal_number)
        reached.update(fresh)


def kill_descendants(root_pid: int) -> None:
    """Kill all that descend from a process; whoever has it for a parent is left to be reaped."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while (found := list_descendants(root_pid)) and time.monotonic() < deadline:
        for each in found:
            _send_signal(each, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)


def kill_own_children(spared_pids: Collection[int] = ()) -> None:
    """Kill and reap all children of this process, which takes in orphans, and all below them; some may be kept."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    # Again and again: those below a child that is killed come to this process.
    while (found := [each for each in _own_child_pids() if each not in spared_pids]) and time.monotonic() < deadline:
        for child in found:
            for each in (child, *list_descendants(child)):
                _send_signal(each, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)
        for child in found:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


def _own_child_pids() -> list[int]:
    """The children of this process, which has one thread; those that have ended included."""
    own = os.getpid()
    try:
        return _read_child_pids(own)
    except FileNotFoundError:
        numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [each for each in numbers if _read_state_and_parent(each)[1] == own]


def _read_child_pids(pid: int) -> list[int]:
    """What the kernel tells of a process's children; one that is gone has none. Not every kernel tells."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except FileNotFoundError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except ProcessLookupError:
            continue
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}"):
                raise
    return found


def process_start_ticks(pid: int) -> int:
    """When a process began, in ticks since the machine did, which with its number means no other; 0 if gone."""
    words = _read_stat_fields(pid)
    return int(words[19]) if words else 0


def _read_state_and_parent(pid: int) -> tuple[bytes, int]:
    """The state and the parent of a process; one that is gone has ended."""
    words = _read_stat_fields(pid)
    return (words[0], int(words[1])) if words else (b"X", 0)


def _read_stat_fields(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold anything, blanks and brackets included.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _send_signal(pid: int, signal_number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal_number)


AGENT_ID_VARIABLE = "PLIANT_AGENT"
_AGENT_ID_PREFIX = f"{AGENT_ID_VARIABLE}=".encode()


def own_agent_id() -> str:
    """What tells the programs of this agent from those of all others, also of later ones with the same number."""
    return f"{_pid_namespace_id()}:{os.getpid()}:{process_start_ticks(os.getpid())}"


def kill_stale_processes() -> int:
    """Kill programs of this user whose agent is no more; how many there were."""
    killed = 0
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_stale_process(name):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(int(name), signal.SIGKILL)
                killed += 1
    return killed


def _is_stale_process(pid: str) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            marks = [each for each in file.read().split(b"\0") if each.startswith(_AGENT_ID_PREFIX)]
        words = marks[0].removeprefix(_AGENT_ID_PREFIX).decode().split(":") if marks else []
    except (OSError, UnicodeDecodeError):
        return False  # it has just ended, or is not ours to look at
    # Numbers of another PID namespace mean other processes here.
    if len(words) != 3 or words[0] != _pid_namespace_id() or not (words[1] + words[2]).isdigit():
        return False
    return process_start_ticks(int(words[1])) != int(words[2])


def _pid_namespace_id() -> str:
    """The PID namespace of this process."""
    return str(os.stat("/proc/self/ns/pid").st_ino)
