"""What the containers of one pod share: a network with an address, a host name, and memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.network.netlink import LOOPBACK_INDEX, NetlinkSocket

BRIDGE_NAME = "pliant0"
GATEWAY_ADDRESS = "10.88.0.1"
POD_PREFIX_LENGTH = 16
SERVICE_NETWORK = ("10.96.0.0", 16)
"""Addresses at which the parent may listen, so that they lead on to pods."""
_BRIDGE_MAC = bytes.fromhex("0a580a580001")
_BRIDGE_ADDRESS, _FIRST_POD_ADDRESS, _LAST_POD_ADDRESS = 0x0A580001, 0x0A580002, 0x0A58FFFD
_EGRESS_ADDRESS = "10.88.255.254"
_ALL_ADDRESSES = ("0.0.0.0", 0)  # noqa: S104 - a route, not a listener
_POD_LINK_INDEX = 2
_POD_NAMESPACES = (("net", syscalls.CLONE_NEWNET), ("uts", syscalls.CLONE_NEWUTS), ("ipc", syscalls.CLONE_NEWIPC))
_POD_NAMESPACES_WITHOUT_NETWORK = _POD_NAMESPACES[1:]

NamespaceTypes = tuple[tuple[str, int], ...]


class Sandbox:
    """The namespaces that one pod's containers share, alive for as long as they are held open."""

    def __init__(self, address: str, memory_dir: str) -> None:
        self.address = address
        self.memory_dir = memory_dir
        self.namespaces: list[tuple[int, int]] = []

    def close(self) -> None:
        """Let the kernel take the namespaces and their network link away."""
        for namespace, _ in self.namespaces:
            os.close(namespace)
        remove_tree(self.memory_dir)


class PodBridge:
    """The bridge between pods, and the addresses handed out on it."""

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
        """Switch on loopback and a bridge in the network namespace of this moment."""
        link = NetlinkSocket.open()
        link.set_link_up(LOOPBACK_INDEX)
        link.add_bridge(BRIDGE_NAME, _BRIDGE_MAC)
        bridge = socket.if_nametoindex(BRIDGE_NAME)
        link.add_address(bridge, GATEWAY_ADDRESS, POD_PREFIX_LENGTH)
        link.set_link_up(bridge)
        link.add_local_route(*SERVICE_NETWORK)
        # Forwarding without a route answers "unreachable" at once, where no forwarding would let connections hang.
        _set_ipv4_sysctl("ip_forward", "1")
        _set_ipv4_sysctl("icmp_ratelimit", "0")
        _set_ipv4_sysctl("ip_unprivileged_port_start", "0")
        return cls(link, bridge, _open_current_namespaces(), memory_dir)

    def listen(self, port: int) -> socket.socket:
        """A listener that pods reach at the bridge's own address."""
        return socket.create_server((GATEWAY_ADDRESS, port), backlog=1024)

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool = True) -> Sandbox:
        """Fresh shared namespaces with an address of their own, or the bridge's without a network of their own."""
        number = self._next_free_address() if own_network else _BRIDGE_ADDRESS
        sandbox = Sandbox(socket.inet_ntoa(number.to_bytes(4, "big")), f"{self._memory_dir}/{pod_uid}")
        os.makedirs(sandbox.memory_dir, exist_ok=True)
        try:
            inner = self._create_namespaces(
                sandbox, hostname, _POD_NAMESPACES if own_network else _POD_NAMESPACES_WITHOUT_NETWORK
            )
            try:
                if own_network:
                    self._connect_to_bridge(sandbox, inner)
            finally:
                inner.close()
        except OSError:
            sandbox.close()
            raise
        self._used_addresses.add(number)
        return sandbox

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        """Close a sandbox and free its address."""
        self._used_addresses.discard(int.from_bytes(socket.inet_aton(sandbox.address), "big"))
        sandbox.close()

    @contextmanager
    def in_egress_network(self) -> Iterator[None]:
        """Stand, for the length of a block, where connections to all other addresses arrive.

        Everything that is sent to no pod and no service ends there, and is refused where nobody listens.
        """
        if self._egress_namespace is None:
            self._egress_namespace = self._create_egress_namespace()
        syscalls.setns(*self._egress_namespace)
        try:
            yield
        finally:
            syscalls.setns(*self._agent_namespaces[0])

    @contextmanager
    def in_sandbox_network(self, sandbox: Sandbox) -> Iterator[None]:
        """Stand, for the length of a block, in the network of a pod."""
        for namespace, kind in sandbox.namespaces:
            if kind == syscalls.CLONE_NEWNET:
                syscalls.setns(namespace, kind)
        try:
            yield
        finally:
            syscalls.setns(*self._agent_namespaces[0])

    def _create_egress_namespace(self) -> tuple[int, int]:
        sandbox = Sandbox(_EGRESS_ADDRESS, f"{self._memory_dir}/outside")
        inner = self._create_namespaces(sandbox, "outside", _POD_NAMESPACES)
        try:
            self._connect_to_bridge(sandbox, inner)
            inner.add_local_route(*_ALL_ADDRESSES)
        finally:
            inner.close()
        self._netlink.add_default_route(_EGRESS_ADDRESS)
        syscalls.setns(*sandbox.namespaces[0])
        _set_ipv4_sysctl("icmp_echo_ignore_all", "1")
        syscalls.setns(*self._agent_namespaces[0])
        return sandbox.namespaces[0]

    def _create_namespaces(self, sandbox: Sandbox, hostname: str, namespace_types: NamespaceTypes) -> NetlinkSocket:
        syscalls.unshare(sum(kind for _, kind in namespace_types))
        try:
            sandbox.namespaces += _open_current_namespaces()
            socket.sethostname(hostname)
            _set_ipv4_sysctl("ip_unprivileged_port_start", "0")
            return NetlinkSocket.open()
        finally:
            for namespace, kind in self._agent_namespaces:
                syscalls.setns(namespace, kind)

    def _connect_to_bridge(self, sandbox: Sandbox, sandbox_netlink: NetlinkSocket) -> None:
        self._veth_count += 1
        name = f"veth{self._veth_count}"
        network = sandbox.namespaces[0][0]
        self._netlink.add_veth_pair(
            name, self._bridge_index, peer_name="eth0", peer_index=_POD_LINK_INDEX, namespace_fd=network
        )
        sandbox_netlink.set_link_up(LOOPBACK_INDEX)
        sandbox_netlink.add_address(_POD_LINK_INDEX, sandbox.address, POD_PREFIX_LENGTH)
        sandbox_netlink.set_link_up(_POD_LINK_INDEX)
        if sandbox.address != _EGRESS_ADDRESS:
            sandbox_netlink.add_default_route(GATEWAY_ADDRESS)
        self._netlink.set_link_up(socket.if_nametoindex(name))

    def _next_free_address(self) -> int:
        """The next address in turn, so that a freed one rests before it is used again."""
        for _ in range(_FIRST_POD_ADDRESS, _LAST_POD_ADDRESS + 1):
            number = self._next_address
            self._next_address = number + 1 if number < _LAST_POD_ADDRESS else _FIRST_POD_ADDRESS
            if number not in self._used_addresses:
                return number
        raise OSError(0, "every pod address is in use")


def remove_tree(folder: str) -> None:
    """Remove a folder and all in it, following no links."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(f"{place}/{name}")
        for name in folders:
            path = f"{place}/{name}"
            if os.path.islink(path):
                os.unlink(path)
            else:
                os.rmdir(path)
    os.rmdir(folder)


def _open_current_namespaces() -> list[tuple[int, int]]:
    return [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), kind) for name, kind in _POD_NAMESPACES]


def _set_ipv4_sysctl(name: str, value: str) -> None:
    """Change a network setting of the namespace of this moment, where /proc lets us."""
    try:
        with open(f"/proc/sys/net/ipv4/{name}", "w") as setting:
            setting.write(value)
    except OSError:
        return  # A comfort only: everything else works without it.
