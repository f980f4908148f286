"""Start the node agent; arguments: CHANNEL_FD DESCRIPTOR_FD PARENT_PID SCRATCH_DIR API_PORT NETWORK_MODE."""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.isolation.cgroups import CgroupManager
from pliant.embedded.agent.isolation.host_isolation import HostIsolation
from pliant.embedded.agent.isolation.namespace_isolation import NamespaceIsolation
from pliant.embedded.agent.network.sandbox import GATEWAY_ADDRESS, PodBridge
from pliant.embedded.agent.server import AgentServer

_FORBIDDING_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts unprivileged user namespaces", "0"),
    ("kernel/unprivileged_userns_clone", "0", "the kernel restricts unprivileged user namespaces", "1"),
    ("user/max_user_namespaces", "0", "the limit of user namespaces is 0", "15000"),
    ("user/max_net_namespaces", "0", "the limit of network namespaces is 0", "15000"),
)
"""Name and forbidding value of each sysctl, the explanation, and the value that allows namespaces."""


class NamespacesForbidden(Exception):
    """This machine does not let an unprivileged user create namespaces; the message says what to change."""


def main(argv: list[str]) -> None:
    """Set up isolation for the network mode, report the gateway address to the parent, and serve its requests."""
    channel_fd, descriptor_fd, parent, scratch_dir, port, network = argv
    channel = socket.socket(fileno=int(channel_fd))
    sockets = channel, socket.socket(fileno=int(descriptor_fd))
    cgroups = CgroupManager.create_if_permitted()
    if network == "host":
        with closing(_start_host_isolation(channel, int(parent))) as host_isolation:
            _run_server(AgentServer(sockets, host_isolation, cgroups))
    else:
        isolation = _start_namespace_isolation(channel, int(parent), scratch_dir, int(port))
        _run_server(AgentServer(sockets, isolation, cgroups))


def _start_host_isolation(channel: socket.socket, parent_pid: int) -> HostIsolation:
    isolation = HostIsolation.acquire_loopback_block(parent_pid)
    with suppress(ConnectionError):
        channel.sendall(json.dumps({"ready": True, "gateway": isolation.gateway_address}).encode() + b"\n")
    return isolation


def _start_namespace_isolation(
    channel: socket.socket, parent_pid: int, scratch_dir: str, api_port: int
) -> NamespaceIsolation:
    """Enter private namespaces and send the parent a listener on the bridge for the API server."""
    try:
        _enter_private_namespaces(parent_pid)
        network = _create_pod_network(scratch_dir)
    except NamespacesForbidden as error:
        with suppress(ConnectionError):
            channel.sendall(json.dumps({"forbidden": str(error)}).encode() + b"\n")
        sys.exit(1)
    # The server detects a parent that has already exited.
    with network.listen_at_gateway(api_port) as listener, suppress(ConnectionError):
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
        raise _to_forbidden_error(error) from error


def _run_server(server: AgentServer) -> None:
    # Without garbage collections, the shims keep sharing the agent's memory pages.
    gc.collect()
    gc.freeze()
    gc.disable()
    server.serve()


def _enter_private_namespaces(parent_pid: int) -> None:
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
        raise _to_forbidden_error(error) from error
    child = os.fork()
    if child:
        os.closerange(3, 1024)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    syscalls.set_parent_death_signal()


def _to_forbidden_error(error: OSError) -> NamespacesForbidden:
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
            return syscalls.unshare(syscalls.CONTAINER_NAMESPACE_FLAGS)
    syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CONTAINER_NAMESPACE_FLAGS)
    for name, value in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(value)
    return None


def _find_forbidding_sysctls() -> Iterator[str]:
    for name, forbidding_value, cause, allowing_value in _FORBIDDING_SYSCTLS:
        with suppress(FileNotFoundError), open(f"/proc/sys/{name}") as file:
            if file.read().strip() == forbidding_value:
                yield f"{cause}. Allow them with: sudo sysctl -w {name.replace('/', '.')}={allowing_value}"


if __name__ == "__main__":
    main(sys.argv[1:])
