"""Prepare a network namespace for `pasta` and execute it.

Arguments: AGENT_PID BIND_PATH PROGRAM ARGUMENTS…. AGENT_PID is a process in the network namespace; BIND_PATH is a file
at which root mounts the namespace for the program. The program is killed when its parent exits.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.network.netlink import NetlinkSocket
from pliant.embedded.agent.network.nftables import add_masquerade_rules

PASTA_INTERFACE = "outside"
"""The interface that pasta creates in the namespace."""
_LINK_LOCAL_NETWORK = ("169.254.0.0", 16)
"""Blocked, because clouds serve credentials at an address of this range."""


def main(argv: list[str]) -> NoReturn:
    agent_pid, bind_path, *command = argv
    syscalls.set_parent_death_signal()
    _prepare_network(agent_pid)
    namespace_path = f"/proc/{agent_pid}/ns/net"
    if os.geteuid() == 0:
        _bind_network_namespace(namespace_path, bind_path)
        command += ["--netns", bind_path, "--netns-only", "--runas", "0"]
    else:
        command += ["--netns", namespace_path, "--userns", f"/proc/{agent_pid}/ns/user"]
    # Python ignores SIGPIPE, and pasta fails if it is ignored.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 - the purpose of this process


def _prepare_network(agent_pid: str) -> None:
    """Masquerade what leaves the network, as pasta supports one address only, and block link-local addresses."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(1)
        return
    try:
        _enter_agent_network(agent_pid)
        add_masquerade_rules(PASTA_INTERFACE)
        NetlinkSocket.open().add_unreachable_route(*_LINK_LOCAL_NETWORK)
    except OSError as error:
        sys.stderr.write(f"the kernel does not allow masquerading: {error}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _enter_agent_network(agent_pid: str) -> None:
    network_fd = os.open(f"/proc/{agent_pid}/ns/net", os.O_RDONLY)
    if os.stat(f"/proc/{agent_pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        syscalls.setns(os.open(f"/proc/{agent_pid}/ns/user", os.O_RDONLY), syscalls.CLONE_NEWUSER)
    syscalls.setns(network_fd, syscalls.CLONE_NEWNET)


def _bind_network_namespace(namespace_path: str, bind_path: str) -> None:
    """Mount a network namespace at a path that pasta can open after it has dropped its privileges."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_PRIVATE)
    with open(bind_path, "w"):
        pass
    syscalls.mount(namespace_path, bind_path, "none", syscalls.MS_BIND)


if __name__ == "__main__":
    main(sys.argv[1:])
