"""The processes that descend from one, found in /proc: for where no namespace holds them together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from contextlib import suppress

_ENDED = b"ZX"
_PAUSE = 0.002
_PATIENCE = 5.0
"""Seconds for processes to go that were killed; the kernel may hold one back that waits for a device."""
_LOOKS = 5
"""How often to look for processes that were made while others were stopped."""


def below(first: int) -> list[int]:
    """Every process that descends from one and has not ended, the nearest first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _seen(int(name))
            if state not in _ENDED:
                children.setdefault(parent, []).append(int(name))
    found = children.get(first, [])
    for each in found:
        found += children.get(each, ())
    return found


def glimpsed(first: int) -> list[int]:
    """The same at little cost: some may be missed that begin or end at this moment."""
    found = [first]
    try:
        for each in found:
            found += _told_children(each)
    except FileNotFoundError:
        return below(first)
    return found[1:]


def signal_all(first: int, number: int) -> None:
    """Send a signal to all that descend from a process; those that are made meanwhile get it, too."""
    reached: set[int] = set()
    for _ in range(_LOOKS):
        fresh = [each for each in below(first) if each not in reached]
        if not fresh:
            return
        for each in fresh:
            _send(each, number)
        reached.update(fresh)


def kill_below(first: int) -> None:
    """Kill all that descend from a process; whoever has it for a parent is left to be reaped."""
    deadline = time.monotonic() + _PATIENCE
    while (found := below(first)) and time.monotonic() < deadline:
        for each in found:
            _send(each, signal.SIGKILL)
        time.sleep(_PAUSE)


def end_own(kept: Collection[int] = ()) -> None:
    """Kill and reap all children of this process, which takes in orphans, and all below them; some may be kept."""
    deadline = time.monotonic() + _PATIENCE
    # Again and again: those below a child that is killed come to this process.
    while (found := [each for each in _children() if each not in kept]) and time.monotonic() < deadline:
        for child in found:
            for each in (child, *below(child)):
                _send(each, signal.SIGKILL)
        time.sleep(_PAUSE)
        for child in found:
            with suppress(ChildProcessError):
                os.waitpid(child, os.WNOHANG)


def _children() -> list[int]:
    """The children of this process, which has one thread; those that have ended included."""
    own = os.getpid()
    try:
        return _told_children(own)
    except FileNotFoundError:
        numbers = (int(name) for name in os.listdir("/proc") if name.isdigit())
        return [each for each in numbers if _seen(each)[1] == own]


def _told_children(process: int) -> list[int]:
    """What the kernel tells of a process's children; one that is gone has none. Not every kernel tells."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except FileNotFoundError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{process}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
        except ProcessLookupError:
            continue
        except FileNotFoundError:
            if os.path.exists(f"/proc/{process}/task/{thread}"):
                raise
    return found


def beginning(process: int) -> int:
    """When a process began, in ticks since the machine did, which with its number means no other; 0 if gone."""
    words = _words(process)
    return int(words[19]) if words else 0


def _seen(process: int) -> tuple[bytes, int]:
    """The state and the parent of a process; one that is gone has ended."""
    words = _words(process)
    return (words[0], int(words[1])) if words else (b"X", 0)


def _words(process: int) -> list[bytes]:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # The name may hold anything, blanks and brackets included.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _send(process: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process, number)
