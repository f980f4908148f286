"""A little rtnetlink: links, addresses and routes of one network namespace."""

from __future__ import annotations

import os
import socket
import struct

_NEWLINK, _NEWADDR, _NEWROUTE = 16, 20, 24
_ERROR = 2
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 4, 10, 18, 28
_LINKINFO_KIND, _LINKINFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST = 1, 2, 4
_RTA_DESTINATION, _RTA_OUTPUT, _RTA_GATEWAY = 1, 4, 5
_IFF_UP = 1
_HEADER = struct.Struct("=IHHII")
_LINK_MESSAGE = struct.Struct("=BxHiII")

_MTU = 65520
"""Of packets: nothing here ever meets a wire, and large ones cost a tenth of small ones."""

LOOPBACK_INDEX = 1
"""The index of `lo` in every network namespace."""


class NetlinkSocket:
    """A conversation with the kernel about the network namespace in which it was opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def open(cls) -> NetlinkSocket:
        """A conversation about the network namespace of this moment."""
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        sock.bind((0, 0))
        return cls(sock)

    def close(self) -> None:
        """End the conversation."""
        self._socket.close()

    def add_bridge(self, name: str, mac_address: bytes) -> None:
        """Add a bridge with a fixed hardware address, so that adding ports never changes it."""
        body = _link_message() + _string_attribute(_IFLA_IFNAME, name) + _attribute(_IFLA_ADDRESS, mac_address)
        self._request(_NEWLINK, _CREATE | _EXCL, body + _link_kind_attribute("bridge"))

    def add_veth_pair(
        self, name: str, bridge_index: int, *, peer_name: str, peer_index: int, namespace_fd: int
    ) -> None:
        """Add a port of bridge `master` whose other end lies in another network namespace."""
        size = _uint32_attribute(_IFLA_MTU, _MTU)
        other = (
            _link_message(peer_index)
            + _string_attribute(_IFLA_IFNAME, peer_name)
            + size
            + _uint32_attribute(_IFLA_NET_NS_FD, namespace_fd)
        )
        body = (
            _link_message()
            + _string_attribute(_IFLA_IFNAME, name)
            + size
            + _uint32_attribute(_IFLA_MASTER, bridge_index)
        )
        self._request(_NEWLINK, _CREATE | _EXCL, body + _link_kind_attribute("veth", _attribute(_VETH_PEER, other)))

    def set_link_up(self, link_index: int) -> None:
        """Switch a link on."""
        self._request(_NEWLINK, 0, _LINK_MESSAGE.pack(socket.AF_UNSPEC, 0, link_index, _IFF_UP, _IFF_UP))

    def add_address(self, link_index: int, address: str, prefix_length: int) -> None:
        """Give a link an IPv4 address."""
        packed = socket.inet_aton(address)
        mask = (1 << 32 - prefix_length) - 1
        broadcast = (int.from_bytes(packed, "big") | mask).to_bytes(4, "big")
        body = struct.pack("=BBBBI", socket.AF_INET, prefix_length, 0, 0, link_index)
        body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
        self._request(_NEWADDR, _CREATE | _EXCL, body + _attribute(_IFA_BROADCAST, broadcast))

    def add_default_route(self, gateway: str) -> None:
        """Send everything without a better route to `gateway`."""
        table_main, proto_boot, scope_universe, unicast = 254, 3, 0, 1
        body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, table_main, proto_boot, scope_universe, unicast, 0)
        self._request(_NEWROUTE, _CREATE | _EXCL, body + _attribute(_RTA_GATEWAY, socket.inet_aton(gateway)))

    def add_local_route(self, network: str, prefix_length: int) -> None:
        """Take every address of a range for this machine's own, so that anything may listen at any of them.

        Routes that say more precisely where an address is come first.
        """
        table_main, proto_boot, scope_host, local = 254, 3, 254, 2
        body = struct.pack(
            "=BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, table_main, proto_boot, scope_host, local, 0
        )
        body += _attribute(_RTA_DESTINATION, socket.inet_aton(network)) + _uint32_attribute(_RTA_OUTPUT, LOOPBACK_INDEX)
        self._request(_NEWROUTE, _CREATE | _EXCL, body)

    def add_unreachable_route(self, network: str, prefix_length: int) -> None:
        """Have everything that is sent to a range come back as unreachable at once."""
        table_main, proto_boot, scope_universe, unreachable = 254, 3, 0, 7
        body = struct.pack(
            "=BBBBBBBBI", socket.AF_INET, prefix_length, 0, 0, table_main, proto_boot, scope_universe, unreachable, 0
        )
        self._request(_NEWROUTE, _CREATE | _EXCL, body + _attribute(_RTA_DESTINATION, socket.inet_aton(network)))

    def _request(self, message_type: int, flags: int, body: bytes) -> None:
        self._socket.send(_HEADER.pack(_HEADER.size + len(body), message_type, _REQUEST | _ACK | flags, 1, 0) + body)
        answer = self._socket.recv(8192)
        _, answered, _, _, _ = _HEADER.unpack_from(answer)
        (error,) = struct.unpack_from("=i", answer, _HEADER.size)
        if answered != _ERROR or error != 0:
            raise OSError(-error, os.strerror(-error), "rtnetlink")


def _link_message(link_index: int = 0) -> bytes:
    return _LINK_MESSAGE.pack(socket.AF_UNSPEC, 0, link_index, 0, 0)


def _link_kind_attribute(link_kind: str, data: bytes = b"") -> bytes:
    return _attribute(
        _IFLA_LINKINFO,
        _string_attribute(_LINKINFO_KIND, link_kind) + (_attribute(_LINKINFO_DATA, data) if data else b""),
    )


def _string_attribute(attribute_type: int, value: str) -> bytes:
    return _attribute(attribute_type, value.encode() + b"\0")


def _uint32_attribute(attribute_type: int, value: int) -> bytes:
    return _attribute(attribute_type, struct.pack("=I", value))


def _attribute(attribute_type: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, attribute_type) + value + b"\0" * (-length % 4)
