"""Become `pasta` for a network: `python … AGENT PLACE PROGRAM ARGUMENTS…`, started by whoever it must not outlive.

AGENT is a process in that network, PLACE a file of ours at which root shows the network to the program.
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
"""What the program's end of the network is called there."""
_LINK_LOCAL_NETWORK = ("169.254.0.0", 16)
"""Addresses that mean something on one link only: a cloud gives secrets to whoever asks at one of them."""


def main(argv: list[str]) -> NoReturn:
    """Prepare the network for a way out and let the program make it."""
    agent, place, *command = argv
    syscalls.set_parent_death_signal()
    _prepare_network(agent)
    if os.geteuid() == 0:
        command += ["--netns", _bind_network_namespace(f"/proc/{agent}/ns/net", place), "--netns-only", "--runas", "0"]
    else:
        command += ["--netns", f"/proc/{agent}/ns/net", "--userns", f"/proc/{agent}/ns/user"]
    # Python ignores it, and the program takes that for a failure of its own.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execv(command[0], command)  # noqa: S606 - this is what it was started for


def _prepare_network(agent_pid: str) -> None:
    """Have what leaves the network bear one address, as the program knows of one only."""
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
    except OSError as problem:
        sys.stderr.write(f"the kernel refuses to translate addresses ({problem})\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _enter_agent_network(agent_pid: str) -> None:
    network = os.open(f"/proc/{agent_pid}/ns/net", os.O_RDONLY)
    if os.stat(f"/proc/{agent_pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:
        syscalls.setns(os.open(f"/proc/{agent_pid}/ns/user", os.O_RDONLY), syscalls.CLONE_NEWUSER)
    syscalls.setns(network, syscalls.CLONE_NEWNET)


def _bind_network_namespace(namespace_path: str, bind_path: str) -> str:
    """Where a program that gave up root's rights finds a network; nobody else sees it there."""
    syscalls.unshare(syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", "none", syscalls.MS_REC | syscalls.MS_PRIVATE)
    with open(bind_path, "w"):
        pass
    syscalls.mount(namespace_path, bind_path, "none", syscalls.MS_BIND)
    return bind_path


if __name__ == "__main__":
    main(sys.argv[1:])
