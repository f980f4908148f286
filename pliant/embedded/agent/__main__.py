"""Start the node agent: `python -m pliant.embedded.agent SOCKET HANDOVER PARENT SCRATCH PORT NETWORK`."""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
from contextlib import closing, suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.bare import BareGround
from pliant.embedded.agent.cells import Cells
from pliant.embedded.agent.entry import Forbidden, enter, explain
from pliant.embedded.agent.ground import PrivateGround
from pliant.embedded.agent.sandbox import GATEWAY, Network
from pliant.embedded.agent.service import Service


def main(arguments: list[str]) -> None:
    """Take the ground that is asked for, tell the parent where that is, and serve it until it is gone."""
    descriptor, second, parent, scratch, port, network = arguments
    channel, handover = socket.socket(fileno=int(descriptor)), socket.socket(fileno=int(second))
    cells = Cells.found()
    if network == "host":
        with closing(_bare_ground(channel, int(parent))) as ground:
            _serve(Service(channel, handover, ground, cells))
    else:
        _serve(Service(channel, handover, _private_ground(channel, int(parent), scratch, int(port)), cells))


def _bare_ground(channel: socket.socket, parent: int) -> BareGround:
    """Run pods as plain processes of this machine; all of them end before the agent does."""
    ground = BareGround.taken(parent)
    with suppress(ConnectionError):
        channel.sendall(json.dumps({"ready": True, "gateway": ground.address}).encode() + b"\n")
    return ground


def _private_ground(channel: socket.socket, parent: int, scratch: str, port: int) -> PrivateGround:
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
    return PrivateGround(network, f"{scratch}/root")


def _serve(service: Service) -> None:
    """Be done with starting, and serve."""
    # Pages that collections never touch stay shared with the first process of every container.
    gc.collect()
    gc.freeze()
    gc.disable()
    service.run()


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
