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
from pliant.embedded.agent.isolation.cgroups import CgroupManager
from pliant.embedded.agent.isolation.host_isolation import HostIsolation
from pliant.embedded.agent.isolation.namespace_isolation import NamespaceIsolation
from pliant.embedded.agent.isolation.user_namespaces import (
    NamespacesForbidden,
    enter_private_namespaces,
    to_forbidden_error,
)
from pliant.embedded.agent.network.sandbox import GATEWAY_ADDRESS, PodBridge
from pliant.embedded.agent.server import AgentServer


def main(argv: list[str]) -> None:
    """Take the ground that is asked for, tell the parent where that is, and serve it until it is gone."""
    descriptor, second, parent, scratch, port, network = argv
    channel, handover = socket.socket(fileno=int(descriptor)), socket.socket(fileno=int(second))
    cells = CgroupManager.detect()
    if network == "host":
        with closing(_start_host_isolation(channel, int(parent))) as ground:
            _run_server(AgentServer(channel, handover, ground, cells))
    else:
        _run_server(
            AgentServer(channel, handover, _start_namespace_isolation(channel, int(parent), scratch, int(port)), cells)
        )


def _start_host_isolation(channel: socket.socket, parent_pid: int) -> HostIsolation:
    """Run pods as plain processes of this machine; all of them end before the agent does."""
    ground = HostIsolation.acquire(parent_pid)
    with suppress(ConnectionError):
        channel.sendall(json.dumps({"ready": True, "gateway": ground.gateway_address}).encode() + b"\n")
    return ground


def _start_namespace_isolation(
    channel: socket.socket, parent_pid: int, scratch_dir: str, api_port: int
) -> NamespaceIsolation:
    """Enter private namespaces and hand the bridge listener to the parent."""
    try:
        enter_private_namespaces(parent_pid)
        network = _create_pod_network(scratch_dir)
    except NamespacesForbidden as problem:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"forbidden": str(problem)}).encode() + b"\n")
        sys.exit(1)
    # A parent that has gone already is heard as such by the service.
    with network.listen(api_port) as listener, suppress(ConnectionError):
        ready = json.dumps({"ready": True, "gateway": GATEWAY_ADDRESS, "port": api_port}).encode() + b"\n"
        socket.send_fds(channel, [ready], [listener.fileno()])
    return NamespaceIsolation(network, f"{scratch_dir}/root")


def _run_server(server: AgentServer) -> None:
    """Be done with starting, and serve."""
    # Pages that collections never touch stay shared with the first process of every container.
    gc.collect()
    gc.freeze()
    gc.disable()
    server.serve()


def _create_pod_network(scratch_dir: str) -> PodBridge:
    try:
        syscalls.mount("tmpfs", scratch_dir, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=700")
        os.mkdir(f"{scratch_dir}/root")
        os.mkdir(f"{scratch_dir}/memory")
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return PodBridge.create(f"{scratch_dir}/memory")
    except OSError as problem:
        raise to_forbidden_error(problem) from problem


if __name__ == "__main__":
    main(sys.argv[1:])
