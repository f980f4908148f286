"""What the containers of one pod share: a network with an address, a host name, and memory."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.netlink import LOOPBACK, Netlink

BRIDGE = "pliant0"
GATEWAY = "10.88.0.1"
PREFIX = 16
SERVICES = ("10.96.0.0", 16)
"""Addresses at which the parent may listen, so that they lead on to pods."""
_HARDWARE = bytes.fromhex("0a580a580001")
_BRIDGE, _FIRST, _LAST = 0x0A580001, 0x0A580002, 0x0A58FFFD
_OUTSIDE = "10.88.255.254"
_EVERYWHERE = ("0.0.0.0", 0)  # noqa: S104 - a route, not a listener
_OUTER_END = 2
_SHARED = (("net", syscalls.NEW_NETWORK), ("uts", syscalls.NEW_HOSTNAME), ("ipc", syscalls.NEW_IPC))
_WITHOUT_NETWORK = _SHARED[1:]

Kinds = tuple[tuple[str, int], ...]


class Sandbox:
    """The namespaces that one pod's containers share, alive for as long as they are held open."""

    def __init__(self, address: str, memory: str) -> None:
        self.address = address
        self.memory = memory
        self.namespaces: list[tuple[int, int]] = []

    def close(self) -> None:
        """Let the kernel take the namespaces and their network link away."""
        for namespace, _ in self.namespaces:
            os.close(namespace)
        remove_tree(self.memory)


class Network:
    """The bridge between pods, and the addresses handed out on it."""

    def __init__(self, link: Netlink, bridge: int, home: list[tuple[int, int]], memory: str) -> None:
        self._link = link
        self._bridge = bridge
        self._home = home
        self._memory = memory
        self._next = _FIRST
        self._taken: set[int] = set()
        self._ports = 0
        self._outside: tuple[int, int] | None = None

    @classmethod
    def made(cls, memory: str) -> Network:
        """Switch on loopback and a bridge in the network namespace of this moment."""
        link = Netlink.opened()
        link.set_up(LOOPBACK)
        link.add_bridge(BRIDGE, _HARDWARE)
        bridge = socket.if_nametoindex(BRIDGE)
        link.add_address(bridge, GATEWAY, PREFIX)
        link.set_up(bridge)
        link.add_local_range(*SERVICES)
        # Forwarding without a route answers "unreachable" at once, where no forwarding would let connections hang.
        _set("ip_forward", "1")
        _set("icmp_ratelimit", "0")
        _set("ip_unprivileged_port_start", "0")
        return cls(link, bridge, _namespaces_here(), memory)

    def listen(self, port: int) -> socket.socket:
        """A listener that pods reach at the bridge's own address."""
        return socket.create_server((GATEWAY, port), backlog=1024)

    def make_sandbox(self, pod: str, hostname: str, *, own_network: bool = True) -> Sandbox:
        """Fresh shared namespaces with an address of their own, or the bridge's without a network of their own."""
        number = self._free_address() if own_network else _BRIDGE
        sandbox = Sandbox(socket.inet_ntoa(number.to_bytes(4, "big")), f"{self._memory}/{pod}")
        os.makedirs(sandbox.memory, exist_ok=True)
        try:
            inner = self._unshare(sandbox, hostname, _SHARED if own_network else _WITHOUT_NETWORK)
            try:
                if own_network:
                    self._connect(sandbox, inner)
            finally:
                inner.close()
        except OSError:
            sandbox.close()
            raise
        self._taken.add(number)
        return sandbox

    def release(self, sandbox: Sandbox) -> None:
        """Close a sandbox and free its address."""
        self._taken.discard(int.from_bytes(socket.inet_aton(sandbox.address), "big"))
        sandbox.close()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Stand, for the length of a block, where connections to all other addresses arrive.

        Everything that is sent to no pod and no service ends there, and is refused where nobody listens.
        """
        if self._outside is None:
            self._outside = self._made_outside()
        syscalls.setns(*self._outside)
        try:
            yield
        finally:
            syscalls.setns(*self._home[0])

    @contextmanager
    def inside(self, sandbox: Sandbox) -> Iterator[None]:
        """Stand, for the length of a block, in the network of a pod."""
        for namespace, kind in sandbox.namespaces:
            if kind == syscalls.NEW_NETWORK:
                syscalls.setns(namespace, kind)
        try:
            yield
        finally:
            syscalls.setns(*self._home[0])

    def _made_outside(self) -> tuple[int, int]:
        sandbox = Sandbox(_OUTSIDE, f"{self._memory}/outside")
        inner = self._unshare(sandbox, "outside", _SHARED)
        try:
            self._connect(sandbox, inner)
            inner.add_local_range(*_EVERYWHERE)
        finally:
            inner.close()
        self._link.add_default_route(_OUTSIDE)
        syscalls.setns(*sandbox.namespaces[0])
        _set("icmp_echo_ignore_all", "1")
        syscalls.setns(*self._home[0])
        return sandbox.namespaces[0]

    def _unshare(self, sandbox: Sandbox, hostname: str, kinds: Kinds) -> Netlink:
        syscalls.unshare(sum(kind for _, kind in kinds))
        try:
            sandbox.namespaces += _namespaces_here()
            socket.sethostname(hostname)
            _set("ip_unprivileged_port_start", "0")
            return Netlink.opened()
        finally:
            for namespace, kind in self._home:
                syscalls.setns(namespace, kind)

    def _connect(self, sandbox: Sandbox, inner: Netlink) -> None:
        self._ports += 1
        name = f"veth{self._ports}"
        network = sandbox.namespaces[0][0]
        self._link.add_pair(name, self._bridge, peer="eth0", peer_index=_OUTER_END, namespace=network)
        inner.set_up(LOOPBACK)
        inner.add_address(_OUTER_END, sandbox.address, PREFIX)
        inner.set_up(_OUTER_END)
        if sandbox.address != _OUTSIDE:
            inner.add_default_route(GATEWAY)
        self._link.set_up(socket.if_nametoindex(name))

    def _free_address(self) -> int:
        """The next address in turn, so that a freed one rests before it is used again."""
        for _ in range(_FIRST, _LAST + 1):
            number = self._next
            self._next = number + 1 if number < _LAST else _FIRST
            if number not in self._taken:
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


def _namespaces_here() -> list[tuple[int, int]]:
    return [(os.open(f"/proc/self/ns/{name}", os.O_RDONLY), kind) for name, kind in _SHARED]


def _set(name: str, value: str) -> None:
    """Change a network setting of the namespace of this moment, where /proc lets us."""
    try:
        with open(f"/proc/sys/net/ipv4/{name}", "w") as setting:
            setting.write(value)
    except OSError:
        return  # A comfort only: everything else works without it.
