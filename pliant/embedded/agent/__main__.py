"""Start the node agent: `python -m pliant.embedded.agent SOCKET HANDOVER PARENT SCRATCH PORT`."""

from __future__ import annotations

import gc
import json
import os
import resource
import socket
import sys
from contextlib import suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.entry import Forbidden, enter, explain
from pliant.embedded.agent.sandbox import GATEWAY, Network
from pliant.embedded.agent.service import Service


def main(arguments: list[str]) -> None:
    """Enter private namespaces, hand the bridge listener to the parent, and serve it until it is gone."""
    descriptor, second, parent, scratch, port = arguments
    channel, handover = socket.socket(fileno=int(descriptor)), socket.socket(fileno=int(second))
    try:
        enter(int(parent))
        network = _furnish(scratch)
    except Forbidden as problem:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"forbidden": str(problem)}).encode() + b"\n")
        sys.exit(1)
    # A parent that has gone already is heard as such by the service.
    with network.listen(int(port)) as listener, suppress(ConnectionError):
        ready = json.dumps({"ready": True, "gateway": GATEWAY, "port": int(port)}).encode() + b"\n"
        socket.send_fds(channel, [ready], [listener.fileno()])
    # Pages that collections never touch stay shared with the first process of every container.
    gc.collect()
    gc.freeze()
    gc.disable()
    Service(channel, handover, network, f"{scratch}/root").run()


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
