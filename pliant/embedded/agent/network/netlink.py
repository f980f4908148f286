"""Configure the links, addresses and routes of a network namespace over rtnetlink."""

from __future__ import annotations

import os
import socket
import struct

_NEWLINK, _NEWADDR, _NEWROUTE = 16, 20, 24
_ERROR_MESSAGE = 2
_REQUEST, _ACK, _EXCL, _CREATE = 0x1, 0x4, 0x200, 0x400
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 4, 10, 18, 28
_LINKINFO_KIND, _LINKINFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_BROADCAST = 1, 2, 4
_RTA_DESTINATION, _RTA_OUTPUT, _RTA_GATEWAY = 1, 4, 5
_RT_TABLE_MAIN, _RTPROT_BOOT = 254, 3
_RT_SCOPE_UNIVERSE, _RT_SCOPE_HOST = 0, 254
_RTN_UNICAST, _RTN_LOCAL, _RTN_UNREACHABLE = 1, 2, 7
_IFF_UP = 1
NETLINK_HEADER = struct.Struct("=IHHII")
_LINK_MESSAGE = struct.Struct("=BxHiII")

_MTU = 65520
"""No packet reaches a wire, and large packets cost a tenth of small ones."""
LOOPBACK_INDEX = 1
"""The index of `lo` in every network namespace."""


class NetlinkSocket:
    """An rtnetlink socket for the network namespace in which it was opened."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def open(cls) -> NetlinkSocket:
        """Open a socket in the current network namespace."""
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        sock.bind((0, 0))
        return cls(sock)

    def close(self) -> None:
        self._socket.close()

    def add_bridge(self, name: str, mac_address: bytes) -> None:
        """Add a bridge with a fixed MAC address, which added ports do not change."""
        body = (
            _link_message() + encode_string_attribute(_IFLA_IFNAME, name) + encode_attribute(_IFLA_ADDRESS, mac_address)
        )
        self._request(_NEWLINK, _CREATE | _EXCL, body + _link_kind_attribute("bridge"))

    def add_veth_pair(
        self, name: str, bridge_index: int, *, peer_name: str, peer_index: int, namespace_fd: int
    ) -> None:
        """Add a bridge port whose peer is in another network namespace."""
        mtu = _uint32_attribute(_IFLA_MTU, _MTU)
        peer = _link_message(peer_index) + encode_string_attribute(_IFLA_IFNAME, peer_name) + mtu
        peer += _uint32_attribute(_IFLA_NET_NS_FD, namespace_fd)
        body = _link_message() + encode_string_attribute(_IFLA_IFNAME, name) + mtu
        body += _uint32_attribute(_IFLA_MASTER, bridge_index)
        self._request(
            _NEWLINK, _CREATE | _EXCL, body + _link_kind_attribute("veth", encode_attribute(_VETH_PEER, peer))
        )

    def set_link_up(self, link_index: int) -> None:
        self._request(_NEWLINK, 0, _LINK_MESSAGE.pack(socket.AF_UNSPEC, 0, link_index, _IFF_UP, _IFF_UP))

    def add_address(self, link_index: int, address: str, prefix_length: int) -> None:
        packed = socket.inet_aton(address)
        mask = (1 << 32 - prefix_length) - 1
        broadcast = (int.from_bytes(packed, "big") | mask).to_bytes(4, "big")
        body = struct.pack("=BBBBI", socket.AF_INET, prefix_length, 0, 0, link_index)
        body += encode_attribute(_IFA_LOCAL, packed) + encode_attribute(_IFA_ADDRESS, packed)
        self._request(_NEWADDR, _CREATE | _EXCL, body + encode_attribute(_IFA_BROADCAST, broadcast))

    def add_default_route(self, gateway: str) -> None:
        self._add_route(0, _RT_SCOPE_UNIVERSE, _RTN_UNICAST, encode_attribute(_RTA_GATEWAY, socket.inet_aton(gateway)))

    def add_local_route(self, network: str, prefix_length: int) -> None:
        """Make every address of a range local, so that a process can listen at any of them.

        More specific routes take precedence.
        """
        target = encode_attribute(_RTA_DESTINATION, socket.inet_aton(network)) + _uint32_attribute(
            _RTA_OUTPUT, LOOPBACK_INDEX
        )
        self._add_route(prefix_length, _RT_SCOPE_HOST, _RTN_LOCAL, target)

    def add_unreachable_route(self, network: str, prefix_length: int) -> None:
        """Reject packets to a range as unreachable."""
        target = encode_attribute(_RTA_DESTINATION, socket.inet_aton(network))
        self._add_route(prefix_length, _RT_SCOPE_UNIVERSE, _RTN_UNREACHABLE, target)

    def _add_route(self, prefix_length: int, scope: int, route_type: int, attributes: bytes) -> None:
        fields = (socket.AF_INET, prefix_length, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, scope, route_type, 0)
        body = struct.pack("=BBBBBBBBI", *fields)
        self._request(_NEWROUTE, _CREATE | _EXCL, body + attributes)

    def _request(self, message_type: int, flags: int, body: bytes) -> None:
        length = NETLINK_HEADER.size + len(body)
        self._socket.send(NETLINK_HEADER.pack(length, message_type, _REQUEST | _ACK | flags, 1, 0) + body)
        raise_unless_acked(self._socket.recv(8192), "rtnetlink")


def raise_unless_acked(reply: bytes, source: str) -> None:
    """Raise OSError unless a reply of the kernel acknowledges the request."""
    _, message_type, _, _, _ = NETLINK_HEADER.unpack_from(reply)
    (error,) = struct.unpack_from("=i", reply, NETLINK_HEADER.size)
    if message_type != _ERROR_MESSAGE or error != 0:
        raise OSError(-error, os.strerror(-error), source)


def _link_message(link_index: int = 0) -> bytes:
    return _LINK_MESSAGE.pack(socket.AF_UNSPEC, 0, link_index, 0, 0)


def _link_kind_attribute(link_kind: str, data: bytes = b"") -> bytes:
    link_data = encode_attribute(_LINKINFO_DATA, data) if data else b""
    return encode_attribute(_IFLA_LINKINFO, encode_string_attribute(_LINKINFO_KIND, link_kind) + link_data)


def encode_string_attribute(attribute_type: int, value: str) -> bytes:
    """Encode a null-terminated string."""
    return encode_attribute(attribute_type, value.encode() + b"\0")


def _uint32_attribute(attribute_type: int, value: int) -> bytes:
    return encode_attribute(attribute_type, struct.pack("=I", value))


def encode_attribute(attribute_type: int, value: bytes) -> bytes:
    """Encode a netlink attribute, padded to four bytes."""
    length = 4 + len(value)
    return struct.pack("=HH", length, attribute_type) + value + b"\0" * (-length % 4)
