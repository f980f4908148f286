"""Linux system calls that Python 3.11 does not provide; a failed call raises OSError."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

_libc = ctypes.CDLL(None, use_errno=True)
# Resolved at import: resolving them in each shim would cost memory in each shim.
_sigprocmask, _signalfd = _libc.sigprocmask, _libc.signalfd

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CONTAINER_NAMESPACE_FLAGS = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS
"""All types of namespaces that a container has."""

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
MS_REMOUNT = 0x20
MS_NOATIME, MS_NODIRATIME = 0x400, 0x800
MS_BIND, MS_MOVE, MS_REC = 0x1000, 0x2000, 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
_ST_RELATIME = 0x1000
_LOCKED_MOUNT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_LAST_CAPABILITY = 63
_FULL_SIGNAL_SET = b"\xff" * 128
_SIG_BLOCK = int(signal.SIG_BLOCK)
_CAPABILITY_HEADER = struct.pack("=Ii", 0x20080522, 0)
"""Version 3 of the structure, and this process."""
_NO_CAPABILITIES = bytes(24)


def unshare(flags: int) -> None:
    _raise_on_error(_libc.unshare(flags), "unshare")


def setns(namespace_fd: int, namespace_type: int) -> None:
    _raise_on_error(_libc.setns(namespace_fd, namespace_type), "setns")


def mount(source: str, target: str, filesystem_type: str, flags: int, options: str = "") -> None:
    paths = os.fsencode(source), os.fsencode(target)
    result = _libc.mount(*paths, filesystem_type.encode(), ctypes.c_ulong(flags), options.encode() or None)
    _raise_on_error(result, target)


def remount_read_only(target: str) -> None:
    """Make a bind mount read-only and keep the flags that a user namespace may not clear."""
    current = os.statvfs(target).f_flag
    flags = current & _LOCKED_MOUNT_FLAGS | (MS_RELATIME if current & _ST_RELATIME else 0)
    mount("none", target, "none", MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def unmount_lazily(target: str) -> None:
    _raise_on_error(_libc.umount2(os.fsencode(target), _MNT_DETACH), target)


def pivot_root(new_root: str, old_root: str) -> None:
    _raise_on_error(_libc.pivot_root(os.fsencode(new_root), os.fsencode(old_root)), new_root)


def set_parent_death_signal(signal_number: int = signal.SIGKILL) -> None:
    """Have the kernel send a signal when the parent exits; a change of credentials clears this setting."""
    _raise_on_error(_libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl")


def become_subreaper() -> None:
    """Make this process the parent of all its orphaned descendants."""
    _raise_on_error(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def block_all_signals() -> None:
    """Block all signals in one call; `signal.pthread_sigmask` would cost memory in each shim."""
    _raise_on_error(_sigprocmask(_SIG_BLOCK, _FULL_SIGNAL_SET, None), "sigprocmask")


def create_signalfd() -> int:
    """Return a descriptor from which blocked signals are read: 128 bytes each, the number in the first four."""
    descriptor = _signalfd(-1, _FULL_SIGNAL_SET, os.O_CLOEXEC)
    _raise_on_error(min(descriptor, 0), "signalfd")
    return int(descriptor)


def drop_privileges() -> None:
    """Set no_new_privs and give up all capabilities, also those that a program of root would regain."""
    _raise_on_error(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    for capability in range(_LAST_CAPABILITY + 1):
        # It fails for numbers that the kernel does not know, and for a user who has no capabilities to lose.
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _raise_on_error(_libc.capset(_CAPABILITY_HEADER, _NO_CAPABILITIES), "capset")


def _raise_on_error(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
