"""The few Linux calls that Python 3.11 does not offer; each failure is an OSError."""

from __future__ import annotations

import ctypes
import os
import signal

_libc = ctypes.CDLL(None, use_errno=True)
# Looked up here: a look-up takes memory, and a container's first process would keep it.
_sigprocmask, _signalfd = _libc.sigprocmask, _libc.signalfd

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
_ST_RELATIME = 0x1000
_KEPT = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LAST_CAPABILITY = 63
_EVERY_SIGNAL = b"\xff" * 128
_SIG_BLOCK = int(signal.SIG_BLOCK)

KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10})
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service: root stays root over files."""


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for fresh ones."""
    _checked(_libc.unshare(flags), "unshare")


def setns(namespace: int, kind: int) -> None:
    """Enter the namespace behind an open descriptor."""
    _checked(_libc.setns(namespace, kind), "setns")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system, or bind, move or change one."""
    done = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode() or None
    )
    _checked(done, target)


def make_read_only(target: str) -> None:
    """Turn a bind mount read-only, keeping the flags that a user namespace may not clear."""
    seen = os.statvfs(target).f_flag
    flags = seen & _KEPT | (MS_RELATIME if seen & _ST_RELATIME else 0)
    mount("none", target, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def detach(target: str) -> None:
    """Take a mount and all below it out of sight."""
    _checked(_libc.umount2(os.fsencode(target), _MNT_DETACH), target)


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root directory and show the former one at `old`."""
    _checked(_libc.pivot_root(os.fsencode(new), os.fsencode(old)), new)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel for SIGKILL, or another signal, when the parent ends; a change of credentials forgets it."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of every process below this one that loses its own."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def block_signals() -> None:
    """Let every signal wait that may; done in one call because Python's own costs a container's memory."""
    _checked(_sigprocmask(_SIG_BLOCK, _EVERY_SIGNAL, None), "sigprocmask")


def signal_descriptor() -> int:
    """A descriptor from which signals that wait are read, 128 bytes each, the number in the first four."""
    descriptor = _signalfd(-1, _EVERY_SIGNAL, os.O_CLOEXEC)
    _checked(min(descriptor, 0), "signalfd")
    return int(descriptor)


def give_up_privileges() -> None:
    """Let nothing run from here on gain rights, and keep only those over files if this is root."""
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    for capability in range(_LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
