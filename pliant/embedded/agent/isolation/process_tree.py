"""Find and kill the descendants of a process through /proc, where no PID namespace contains them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

_DEAD_STATES = b"ZX"
_POLL_INTERVAL = 0.002
_KILL_TIMEOUT = 5.0
"""Seconds to wait for killed processes; the kernel may keep one that waits for a device."""
_MAX_SIGNAL_ROUNDS = 5

AGENT_ID_VARIABLE = "PLIANT_AGENT"
_AGENT_ID_PREFIX = f"{AGENT_ID_VARIABLE}=".encode()


def list_descendants(root_pid: int) -> list[int]:
    """List all living descendants of a process, nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _read_state_and_parent(int(name))
            if state not in _DEAD_STATES:
                children.setdefault(parent, []).append(int(name))
    found = children.get(root_pid, [])
    for pid in found:
        found += children.get(pid, ())
    return found


def list_descendants_fast(root_pid: int) -> list[int]:
    """List the descendants of a process without a scan of /proc; processes that start or exit now may be missed."""
    found = [root_pid]
    try:
        for pid in found:
            found += _read_child_pids(pid)
    except FileNotFoundError:
        return list_descendants(root_pid)
    return found[1:]


def signal_descendants(root_pid: int, signal_number: int) -> None:
    """Send a signal to all descendants of a process, including those that start meanwhile."""
    signaled: set[int] = set()
    for _ in range(_MAX_SIGNAL_ROUNDS):
        remaining = [pid for pid in list_descendants(root_pid) if pid not in signaled]
        if not remaining:
            return
        for pid in remaining:
            _send_signal(pid, signal_number)
        signaled.update(remaining)


def kill_descendants(root_pid: int) -> None:
    """Kill all descendants of a process; their parents reap them."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    while (found := list_descendants(root_pid)) and time.monotonic() < deadline:
        for pid in found:
            _send_signal(pid, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)  # other processes reap them, so no exit can be waited for


def kill_own_children(spared_pids: Collection[int] = ()) -> None:
    """Kill and reap the children of this process, adopted orphans included, and kill their descendants."""
    deadline = time.monotonic() + _KILL_TIMEOUT
    # Repeat: this process adopts the children of each killed child.
    while (found := [pid for pid in _own_child_pids() if pid not in spared_pids]) and time.monotonic() < deadline:
        for child in found:
            for pid in (child, *list_descendants(child)):
                _send_signal(pid, signal.SIGKILL)
        time.sleep(_POLL_INTERVAL)
        for child in found:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


def _own_child_pids() -> list[int]:
    """List the children of this single-threaded process, zombies included."""
    own_pid = os.getpid()
    try:
        return _read_child_pids(own_pid)
    except FileNotFoundError:
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [pid for pid in pids if _read_state_and_parent(pid)[1] == own_pid]


def _read_child_pids(pid: int) -> list[int]:
    """Return the children of a process; raise FileNotFoundError if the kernel does not provide them."""
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
    """Return the start time of a process in clock ticks since boot, or 0 if there is no such process."""
    fields = read_stat_fields(pid)
    return int(fields[19]) if fields else 0


def _read_state_and_parent(pid: int) -> tuple[bytes, int]:
    fields = read_stat_fields(pid)
    return (fields[0], int(fields[1])) if fields else (b"X", 0)


def read_stat_fields(pid: int, proc_dir: str = "/proc") -> list[bytes]:
    """Return the fields of a process's stat file from the state on; nothing if there is no such process."""
    try:
        with open(f"{proc_dir}/{pid}/stat", "rb") as file:
            # The process name before the last bracket may contain blanks and brackets.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _send_signal(pid: int, signal_number: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal_number)
        return True
    return False


def own_agent_id() -> str:
    """Return an id that no other agent has, even one with the same pid later."""
    return f"{_pid_namespace_id()}:{os.getpid()}:{process_start_ticks(os.getpid())}"


def kill_dead_agents_processes() -> int:
    """Kill the processes of this user whose agent has exited, and return how many there were."""
    stale = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_stale_process(name)]
    return sum(_send_signal(pid, signal.SIGKILL) for pid in stale)


def _is_stale_process(pid: str) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            agent_ids = [each for each in file.read().split(b"\0") if each.startswith(_AGENT_ID_PREFIX)]
        parts = agent_ids[0].removeprefix(_AGENT_ID_PREFIX).decode().split(":") if agent_ids else []
    except (OSError, UnicodeDecodeError):
        return False  # It has just exited, or its environment is not readable.
    # A pid of another PID namespace names a different process here.
    if len(parts) != 3 or parts[0] != _pid_namespace_id() or not (parts[1] + parts[2]).isdigit():
        return False
    return process_start_ticks(int(parts[1])) != int(parts[2])


def _pid_namespace_id() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)
