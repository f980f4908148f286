"""Start the node agent: `python -m pliant.embedded.agent SOCKET HANDOVER PARENT SCRATCH PORT NETWORK`."""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
from contextlib import suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.bare import BareGround
from pliant.embedded.agent.entry import Forbidden, enter, explain
from pliant.embedded.agent.ground import PrivateGround
from pliant.embedded.agent.sandbox import GATEWAY, Network
from pliant.embedded.agent.service import Service


def main(arguments: list[str]) -> None:
    """Take the ground that is asked for, tell the parent where that is, and serve it until it is gone."""
    descriptor, second, parent, scratch, port, network = arguments
    channel, handover = socket.socket(fileno=int(descriptor)), socket.socket(fileno=int(second))
    if network == "host":
        _serve_bare(channel, handover, int(parent))
    else:
        _serve_private(channel, handover, int(parent), scratch, int(port))


def _serve_bare(channel: socket.socket, handover: socket.socket, parent: int) -> None:
    """Run pods as plain processes of this machine, and end all of them before the agent ends."""
    ground = BareGround.taken(parent)
    try:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"ready": True, "gateway": ground.address}).encode() + b"\n")
        _settle()
        Service(channel, handover, ground).run()
    finally:
        ground.close()


def _serve_private(channel: socket.socket, handover: socket.socket, parent: int, scratch: str, port: int) -> None:
    """Enter private namespaces and hand the bridge listener to the parent."""
    try:
        enter(parent)
        network = _furnish(scratch)
    except Forbidden as problem:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"forbidden": str(problem)}).encode() + b"\n")
        sys.exit(1)
    # A parent that has gone already is heard as such by the service.
    with network.listen(port) as listener, suppress(ConnectionError):
        ready = json.dumps({"ready": True, "gateway": GATEWAY, "port": port}).encode() + b"\n"
        socket.send_fds(channel, [ready], [listener.fileno()])
    _settle()
    Service(channel, handover, PrivateGround(network, f"{scratch}/root")).run()


def _settle() -> None:
    """Be done with starting."""
    # Pages that collections never touch stay shared with the first process of every container.
    gc.collect()
    gc.freeze()
    gc.disable()


def _furnish(scratch: str) -> Network:
    try:
        syscalls.mount("tmpfs", scratch, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=700")
        os.mkdir(f"{scratch}/root")
        os.mkdir(f"{scratch}/memory")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return Network.made(f"{scratch}/memory")
    except OSError as problem:
        raise explain(problem) from problem


if __name__ == "__main__":
    main(sys.argv[1:])
