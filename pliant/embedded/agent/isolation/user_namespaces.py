"""Enter private namespaces without root, or explain which setting forbids it and how to change that."""

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
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts unprivileged user namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0", "the kernel restricts unprivileged user namespaces", "1"),
    ("user/max_user_namespaces", "0", "the limit of user namespaces is 0", "15000"),
    ("user/max_net_namespaces", "0", "the limit of network namespaces is 0", "15000"),
)
"""Name and forbidding value of each sysctl, the explanation, and the value that allows namespaces."""


class NamespacesForbidden(Exception):
    """This machine does not let an unprivileged user create namespaces; the message says what to change."""


def enter_private_namespaces(parent_pid: int) -> None:
    """Return as the first process of private namespaces, with the same user id.

    When the parent exits, every process in these namespaces is killed.
    """
    syscalls.set_parent_death_signal()
    if os.getppid() != parent_pid:
        sys.exit("the parent process exited before the node agent started")
    try:
        _unshare_with_same_ids()
        syscalls.set_parent_death_signal()
        syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as error:
        raise to_forbidden_error(error) from error
    child = os.fork()
    if child:
        _wait_and_exit_like(child)
    syscalls.set_parent_death_signal()


def to_forbidden_error(error: OSError) -> NamespacesForbidden:
    """Return the error that explains a refused operation on namespaces."""
    summary = f"this machine does not allow user namespaces ({error.strerror})"
    causes = list(_find_forbidding_sysctls())
    if causes:
        return NamespacesForbidden(f"{summary}: " + "; ".join(causes))
    if error.errno in (errno.EPERM, errno.EACCES):
        return NamespacesForbidden(
            f"{summary}: a container or security profile forbids them. Inside Docker or Podman, start the container "
            "with --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined"
        )
    return NamespacesForbidden(f"{summary} at {error.filename}")


def _unshare_with_same_ids() -> None:
    """Create the namespaces, inside a user namespace with the same ids if that is required."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        with suppress(PermissionError):
            return syscalls.unshare(_AGENT_NAMESPACES)
    syscalls.unshare(syscalls.CLONE_NEWUSER | _AGENT_NAMESPACES)
    for name, value in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(value)
    return None


def _wait_and_exit_like(child_pid: int) -> None:
    os.closerange(3, 1024)
    _, status = os.waitpid(child_pid, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _find_forbidding_sysctls() -> Iterator[str]:
    for name, forbidding_value, cause, allowing_value in _FORBIDDING_SYSCTLS:
        with suppress(FileNotFoundError), open(f"/proc/sys/{name}") as file:
            if file.read().strip() == forbidding_value:
                yield f"{cause}. Allow them with: sudo sysctl -w {name.replace('/', '.')}={allowing_value}"
