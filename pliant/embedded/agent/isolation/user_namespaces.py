"""Enter private namespaces without root, or say what forbids it and how to allow it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from pliant.embedded.agent import syscalls

_AGENT_NAMESPACES = (
    syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
)
_FORBIDDING_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor keeps ordinary users out of them", "0"),
    ("kernel/unprivileged_userns_clone", "0", "the kernel keeps ordinary users out of them", "1"),
    ("user/max_user_namespaces", "0", "their number is limited to none", "15000"),
    ("user/max_net_namespaces", "0", "the number of network namespaces is limited to none", "15000"),
)


class NamespacesForbidden(Exception):
    """This machine does not let an ordinary user make namespaces; the message says what to change."""


def enter_private_namespaces(parent_pid: int) -> None:
    """Return as the first process of private namespaces, owned by the same user as before.

    Whatever happens to `parent`, nothing in these namespaces outlives it.
    """
    syscalls.set_parent_death_signal()
    if os.getppid() != parent_pid:
        sys.exit("the parent ended before its node agent began")
    try:
        _unshare_with_same_ids()
        syscalls.set_parent_death_signal()
        syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as problem:
        raise NamespacesForbidden(_explain_refusal(problem)) from problem
    child = os.fork()
    if child:
        _wait_and_exit_like(child)
    syscalls.set_parent_death_signal()


def to_forbidden_error(error: OSError) -> NamespacesForbidden:
    """The reason why something inside the namespaces was refused."""
    return NamespacesForbidden(_explain_refusal(error))


def _unshare_with_same_ids() -> None:
    """Make the namespaces, in a user namespace with the same ids where only that gives the right to."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(PermissionError):
            return syscalls.unshare(_AGENT_NAMESPACES)
    syscalls.unshare(syscalls.CLONE_NEWUSER | _AGENT_NAMESPACES)
    for table, words in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{table}", "w") as setting:
            setting.write(words)
    return None


def _wait_and_exit_like(child_pid: int) -> None:
    """Wait for the one inside and end as it did; its death takes everything else along."""
    os.closerange(3, 1024)
    _, status = os.waitpid(child_pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _explain_refusal(error: OSError) -> str:
    said = f"this machine refuses user namespaces ({error.strerror})"
    causes = list(_find_forbidding_sysctls())
    if causes:
        return f"{said}: " + "; ".join(causes)
    if error.errno in (errno.EPERM, errno.EACCES):
        return (
            f"{said}: a container or security profile forbids them. Inside Docker or Podman, start the container "
            "with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined"
        )
    return f"{said} at {error.filename}"


def _find_forbidding_sysctls() -> Iterator[str]:
    for name, value, cause, cure in _FORBIDDING_SYSCTLS:
        with suppress(FileNotFoundError), open(f"/proc/sys/{name}") as setting:
            if setting.read().strip() == value:
                yield f"{cause}. Allow them with: sudo sysctl -w {name.replace('/', '.')}={cure}"
