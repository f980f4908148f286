"""Pod sandboxes: the network, UTS and IPC namespaces and the memory directory that the containers of a pod share."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.network.netlink import LOOPBACK_INDEX, NetlinkSocket

BRIDGE_NAME = "pliant0"
GATEWAY_ADDRESS = "10.88.0.1"
POD_PREFIX_LENGTH = 16
SERVICE_NETWORK = ("10.96.0.0", 16)
"""The addresses of services; the kubelet listens there and forwards to pods."""
_BRIDGE_MAC = bytes.fromhex("0a580a580001")
_BRIDGE_ADDRESS, _FIRST_POD_ADDRESS, _LAST_POD_ADDRESS = 0x0A580001, 0x0A580002, 0x0A58FFFD
_EGRESS_ADDRESS = "10.88.255.254"
_ALL_ADDRESSES = ("0.0.0.0", 0)  # noqa: S104 - a route, not a listener
_POD_LINK_INDEX = 2
_POD_NAMESPACES = (("net", syscalls.CLONE_NEWNET), ("uts", syscalls.CLONE_NEWUTS), ("ipc", syscalls.CLONE_NEWIPC))

NamespaceTypes = tuple[tuple[str, int], ...]


class Sandbox:
    """The namespaces that the containers of a pod share; open descriptors keep them alive."""

    def __init__(self, address: str, memory_dir: str) -> None:
        self.address = address
        self.memory_dir = memory_dir
        self.namespaces: list[tuple[int, int]] = []
        """Descriptor and type of each namespace, the network namespace first."""

    def close(self) -> None:
        """Close the namespaces, so that the kernel removes them and their network link."""
        for namespace_fd, _ in self.namespaces:
            os.close(namespace_fd)
        remove_tree(self.memory_dir)


class PodBridge:
    """The bridge that connects the sandboxes of pods, and the allocation of pod addresses."""

    def __init__(
        self, netlink: NetlinkSocket, bridge_index: int, agent_namespaces: list[tuple[int, int]], memory_dir: str
    ) -> None:
        self._netlink = netlink
        self._bridge_index = bridge_index
        self._agent_namespaces = agent_namespaces
        self._memory_dir = memory_dir
        self._next_address = _FIRST_POD_ADDRESS
        self._used_addresses: set[int] = set()
        self._veth_count = 0
        self._egress_namespace: tuple[int, int] | None = None

    @classmethod
    def create(cls, memory_dir: str) -> PodBridge:
        """Set up the loopback interface and a bridge in the current network namespace."""
        netlink = NetlinkSocket.open()
        netlink.set_link_up(LOOPBACK_INDEX)
        netlink.add_bridge(BRIDGE_NAME, _BRIDGE_MAC)
        bridge_index = socket.if_nametoindex(BRIDGE_NAME)
        netlink.add_address(bridge_index, GATEWAY_ADDRESS, POD_PREFIX_LENGTH)
        netlink.set_link_up(bridge_index)
        netlink.add_local_route(*SERVICE_NETWORK)
        # With forwarding, packets without a route are rejected at once; without it, connections would hang.
        _set_ipv4_sysctl("ip_forward", "1")
        _set_ipv4_sysctl("icmp_ratelimit", "0")
        _set_ipv4_sysctl("ip_unprivileged_port_start", "0")
        return cls(netlink, bridge_index, _open_current_namespaces(), memory_dir)

    def listen_at_gateway(self, port: int) -> socket.socket:
        """Listen at the address of the bridge, which pods can reach."""
        return socket.create_server((GATEWAY_ADDRESS, port), backlog=1024)

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool = True) -> Sandbox:
        """Create the namespaces of a pod; without its own network, the pod uses the bridge's network and address."""
        address = self._next_free_address() if own_network else _BRIDGE_ADDRESS
        sandbox = Sandbox(socket.inet_ntoa(address.to_bytes(4, "big")), f"{self._memory_dir}/{pod_uid}")
        os.makedirs(sandbox.memory_dir, exist_ok=True)
        try:
            namespace_types = _POD_NAMESPACES if own_network else _POD_NAMESPACES[1:]
            with closing(self._create_namespaces(sandbox, hostname, namespace_types)) as sandbox_netlink:
                if own_network:
                    self._connect_to_bridge(sandbox, sandbox_netlink)
        except OSError:
            sandbox.close()
            raise
        self._used_addresses.add(address)
        return sandbox

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Close a sandbox and free its address."""
        self._used_addresses.discard(int.from_bytes(socket.inet_aton(sandbox.address), "big"))
        sandbox.close()

    def in_egress_network(self) -> AbstractContextManager[None]:
        """Enter the egress network, which receives all packets to addresses that are no pod and no service."""
        if self._egress_namespace is None:
            self._egress_namespace = self._create_egress_namespace()
        return self._in_network(self._egress_namespace)

    def in_sandbox_network(self, sandbox: Sandbox) -> AbstractContextManager[None]:
        return self._in_network(sandbox.namespaces[0])

    @contextmanager
    def _in_network(self, network_namespace: tuple[int, int]) -> Iterator[None]:
        syscalls.setns(*network_namespace)
        try:
            yield
        finally:
            syscalls.setns(*self._agent_namespaces[0])

    def _create_egress_namespace(self) -> tuple[int, int]:
        sandbox = Sandbox(_EGRESS_ADDRESS, f"{self._memory_dir}/egress")
        with closing(self._create_namespaces(sandbox, "egress", _POD_NAMESPACES)) as sandbox_netlink:
            self._connect_to_bridge(sandbox, sandbox_netlink)
            sandbox_netlink.add_local_route(*_ALL_ADDRESSES)
        self._netlink.add_default_route(_EGRESS_ADDRESS)
        syscalls.setns(*sandbox.namespaces[0])
        _set_ipv4_sysctl("icmp_echo_ignore_all", "1")
        syscalls.setns(*self._agent_namespaces[0])
        return sandbox.namespaces[0]

    def _create_namespaces(self, sandbox: Sandbox, hostname: str, namespace_types: NamespaceTypes) -> NetlinkSocket:
        """Create namespaces for a sandbox and return a netlink socket in them."""
        syscalls.unshare(sum(namespace_type for _, namespace_type in namespace_types))
        try:
            sandbox.namespaces += _open_current_namespaces()
            socket.sethostname(hostname)
            _set_ipv4_sysctl("ip_unprivileged_port_start", "0")
            return NetlinkSocket.open()
        finally:
            for namespace_fd, namespace_type in self._agent_namespaces:
                syscalls.setns(namespace_fd, namespace_type)

    def _connect_to_bridge(self, sandbox: Sandbox, sandbox_netlink: NetlinkSocket) -> None:
        self._veth_count += 1
        name = f"veth{self._veth_count}"
        network_fd = sandbox.namespaces[0][0]
        peer = {"peer_index": _POD_LINK_INDEX, "namespace_fd": network_fd}
        self._netlink.add_veth_pair(name, self._bridge_index, peer_name="eth0", **peer)
        sandbox_netlink.set_link_up(LOOPBACK_INDEX)
        sandbox_netlink.add_address(_POD_LINK_INDEX, sandbox.address, POD_PREFIX_LENGTH)
        sandbox_netlink.set_link_up(_POD_LINK_INDEX)
        if sandbox.address != _EGRESS_ADDRESS:
            sandbox_netlink.add_default_route(GATEWAY_ADDRESS)
        self._netlink.set_link_up(socket.if_nametoindex(name))

    def _next_free_address(self) -> int:
        """Return the next free address in ascending order, so that a freed address is not reused soon."""
        for _ in range(_FIRST_POD_ADDRESS, _LAST_POD_ADDRESS + 1):
            address = self._next_address
            self._next_address = address + 1 if address < _LAST_POD_ADDRESS else _FIRST_POD_ADDRESS
            if address not in self._used_addresses:
                return address
        raise OSError(0, "all pod addresses are in use")


def remove_tree(root_dir: str) -> None:
    """Remove a directory tree without following links; shutil would slow down the start of the agent."""
    for directory, subdirectories, files in os.walk(root_dir, topdown=False):
        for name in files:
            os.unlink(f"{directory}/{name}")
        for name in subdirectories:
            path = f"{directory}/{name}"
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    os.rmdir(root_dir)


def _open_current_namespaces() -> list[tuple[int, int]]:
    return [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), namespace_type) for name, namespace_type in _POD_NAMESPACES]


def _set_ipv4_sysctl(name: str, value: str) -> None:
    # Optional: an outer container may have made /proc/sys read-only.
    with suppress(OSError), open(f"/proc/sys/net/ipv4/{name}", "w") as file:
        file.write(value)
