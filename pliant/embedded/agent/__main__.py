"""Start the node agent.

Arguments: CHANNEL_FD DESCRIPTOR_FD PARENT_PID SCRATCH_DIR API_PORT NETWORK.
"""

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
    """Set up isolation for the network mode, report the gateway address to the parent, and serve its requests."""
    channel_fd, descriptor_fd, parent, scratch_dir, port, network = argv
    channel, descriptors = socket.socket(fileno=int(channel_fd)), socket.socket(fileno=int(descriptor_fd))
    cgroups = CgroupManager.detect()
    if network == "host":
        with closing(_start_host_isolation(channel, int(parent))) as host_isolation:
            _run_server(AgentServer(channel, descriptors, host_isolation, cgroups))
    else:
        isolation = _start_namespace_isolation(channel, int(parent), scratch_dir, int(port))
        _run_server(AgentServer(channel, descriptors, isolation, cgroups))


def _start_host_isolation(channel: socket.socket, parent_pid: int) -> HostIsolation:
    isolation = HostIsolation.acquire(parent_pid)
    with suppress(ConnectionError):
        channel.sendall(json.dumps({"ready": True, "gateway": isolation.gateway_address}).encode() + b"\n")
    return isolation


def _start_namespace_isolation(
    channel: socket.socket, parent_pid: int, scratch_dir: str, api_port: int
) -> NamespaceIsolation:
    """Enter private namespaces and send the parent a listener on the bridge for the API server."""
    try:
        enter_private_namespaces(parent_pid)
        network = _create_pod_network(scratch_dir)
    except NamespacesForbidden as error:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"forbidden": str(error)}).encode() + b"\n")
        sys.exit(1)
    # The server detects a parent that has already exited.
    with network.listen(api_port) as listener, suppress(ConnectionError):
        ready = json.dumps({"ready": True, "gateway": GATEWAY_ADDRESS, "port": api_port}).encode() + b"\n"
        socket.send_fds(channel, [ready], [listener.fileno()])
    return NamespaceIsolation(network, f"{scratch_dir}/root")


def _create_pod_network(scratch_dir: str) -> PodBridge:
    try:
        syscalls.mount("tmpfs", scratch_dir, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=700")
        os.mkdir(f"{scratch_dir}/root")
        os.mkdir(f"{scratch_dir}/memory")
        _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))
        return PodBridge.create(f"{scratch_dir}/memory")
    except OSError as error:
        raise to_forbidden_error(error) from error


def _run_server(server: AgentServer) -> None:
    # Without garbage collections, the shims keep sharing the agent's memory pages.
    gc.collect()
    gc.freeze()
    gc.disable()
    server.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
