"""Enter private namespaces without root, or say what forbids it and how to allow it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from pliant.embedded.agent import syscalls

_PRIVATE = (
    syscalls.NEW_NETWORK | syscalls.NEW_MOUNTS | syscalls.NEW_PIDS | syscalls.NEW_IPC | syscalls.NEW_HOSTNAME
)
_FORBIDDEN = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor keeps ordinary users out of them", "0"),
    ("kernel/unprivileged_userns_clone", "0", "the kernel keeps ordinary users out of them", "1"),
    ("user/max_user_namespaces", "0", "their number is limited to none", "15000"),
    ("user/max_net_namespaces", "0", "the number of network namespaces is limited to none", "15000"),
)


class Forbidden(Exception):
    """This machine does not let an ordinary user make namespaces; the message says what to change."""


def enter(parent: int) -> None:
    """Return as the first process of private namespaces, owned by the same user as before.

    Whatever happens to `parent`, nothing in these namespaces outlives it.
    """
    syscalls.die_with_parent()
    if os.getppid() != parent:
        sys.exit("the parent ended before its node agent began")
    try:
        _unshare_as_oneself()
        syscalls.die_with_parent()
        syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as problem:
        raise Forbidden(_explanation(problem)) from problem
    child = os.fork()
    if child:
        _end_with(child)
    syscalls.die_with_parent()


def explain(problem: OSError) -> Forbidden:
    """The reason why something inside the namespaces was refused."""
    return Forbidden(_explanation(problem))


def _unshare_as_oneself() -> None:
    """Make the namespaces, in a user namespace with the same ids where only that gives the right to."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(PermissionError):
            return syscalls.unshare(_PRIVATE)
    syscalls.unshare(syscalls.NEW_USER | _PRIVATE)
    for table, words in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{table}", "w") as setting:
            setting.write(words)
    return None


def _end_with(child: int) -> None:
    """Wait for the one inside and end as it did; its death takes everything else along."""
    os.closerange(3, 1024)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _explanation(problem: OSError) -> str:
    said = f"this machine refuses user namespaces ({problem.strerror})"
    causes = list(_causes())
    if causes:
        return f"{said}: " + "; ".join(causes)
    if problem.errno in (errno.EPERM, errno.EACCES):
        return (
            f"{said}: a container or security profile forbids them. Inside Docker or Podman, start the container "
            "with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined"
        )
    return f"{said} at {problem.filename}"


def _causes() -> Iterator[str]:
    for name, value, cause, cure in _FORBIDDEN:
        with suppress(FileNotFoundError), open(f"/proc/sys/{name}") as setting:
            if setting.read().strip() == value:
                yield f"{cause}. Allow them with: sudo sysctl -w {name.replace('/', '.')}={cure}"
