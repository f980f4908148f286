"""Configure masquerading with nftables over nfnetlink."""

from __future__ import annotations

import socket
import struct

from pliant.embedded.agent.network.netlink import (
    NETLINK_HEADER,
    encode_attribute,
    encode_string_attribute,
    raise_unless_acked,
)

_NETLINK_NETFILTER = 12
_NFPROTO_IPV4 = 2
_NFTABLES_SUBSYSTEM = 10
_NEWTABLE, _NEWCHAIN, _NEWRULE = (_NFTABLES_SUBSYSTEM << 8 | number for number in (0, 3, 6))
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_HOOK_PREROUTING, _PRIORITY_RAW = 0, -300
_HOOK_POSTROUTING, _PRIORITY_SRCNAT = 4, 100
_REGISTER_1, _REGISTER_2 = 1, 2
_META_IIFNAME, _META_OIFNAME, _META_L4PROTO, _CMP_EQ = 6, 7, 16, 0
_IPPROTO_TCP = b"\x06"
_PAYLOAD_TRANSPORT_HEADER, _TCP_FLAGS_OFFSET, _TCP_CHECKSUM_OFFSET, _CHECKSUM_TYPE_INET = 2, 12, 16, 1
_TCP_RST, _TCP_ACK = 0x04, 0x10
_IFNAMSIZ = 16
_TABLE_NAME = "pliant"


def add_masquerade_rules(interface: str) -> None:
    """Give all packets that leave by an interface the address of that interface.

    Also set the ACK flag on TCP resets without it. Some programs refuse connections with such resets, and the kernel
    ignores them as forged, so the connection attempt would hang.
    """
    match_tcp = _load_meta(_META_L4PROTO) + _compare_equal(_REGISTER_1, _IPPROTO_TCP)
    requests = [
        (_NEWTABLE, encode_string_attribute(1, _TABLE_NAME)),
        _newchain_request("out", "nat", _HOOK_POSTROUTING, _PRIORITY_SRCNAT),
        _newrule_request("out", _match_interface(_META_OIFNAME, interface), _nft_expression("masq", b"")),
        _newchain_request("in", "filter", _HOOK_PREROUTING, _PRIORITY_RAW),
        _newrule_request("in", _match_interface(_META_IIFNAME, interface), match_tcp, _set_ack_on_reset()),
    ]
    batch = _netlink_message(_BATCH_BEGIN, 0, 0, b"", subsystem=_NFTABLES_SUBSYSTEM)
    for number, (message_type, body) in enumerate(requests, start=1):
        batch += _netlink_message(message_type, _ACK | _CREATE | _APPEND, number, body)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as sock:
        sock.bind((0, 0))
        sock.send(batch + _netlink_message(_BATCH_END, 0, len(requests) + 1, b"", subsystem=_NFTABLES_SUBSYSTEM))
        for _ in requests:
            raise_unless_acked(sock.recv(8192), "nftables")


def _newchain_request(name: str, chain_type: str, hook: int, priority: int) -> tuple[int, bytes]:
    hook_attribute = _nested_attribute(4, _uint32_attribute(1, hook) + _uint32_attribute(2, priority))
    names = encode_string_attribute(1, _TABLE_NAME) + encode_string_attribute(3, name)
    return _NEWCHAIN, names + hook_attribute + encode_string_attribute(7, chain_type)


def _newrule_request(chain: str, *expressions: bytes) -> tuple[int, bytes]:
    names = encode_string_attribute(1, _TABLE_NAME) + encode_string_attribute(2, chain)
    return _NEWRULE, names + _nested_attribute(4, b"".join(expressions))


def _match_interface(meta_key: int, interface: str) -> bytes:
    return _load_meta(meta_key) + _compare_equal(_REGISTER_1, interface.encode().ljust(_IFNAMSIZ, b"\0"))


def _set_ack_on_reset() -> bytes:
    flags_field = _uint32_attribute(2, _PAYLOAD_TRANSPORT_HEADER) + _uint32_attribute(3, _TCP_FLAGS_OFFSET)
    flags_field += _uint32_attribute(4, 2)
    checksum = _uint32_attribute(6, _CHECKSUM_TYPE_INET) + _uint32_attribute(7, _TCP_CHECKSUM_OFFSET)
    return (
        _nft_expression("payload", _uint32_attribute(1, _REGISTER_1) + flags_field)
        + _mask_and_xor(_REGISTER_2, _TCP_RST | _TCP_ACK, 0)
        + _compare_equal(_REGISTER_2, struct.pack("!H", _TCP_RST))
        + _mask_and_xor(_REGISTER_1, 0xFFFF ^ _TCP_ACK, _TCP_ACK)
        + _nft_expression("payload", flags_field + _uint32_attribute(5, _REGISTER_1) + checksum)
    )


def _load_meta(meta_key: int) -> bytes:
    return _nft_expression("meta", _uint32_attribute(1, _REGISTER_1) + _uint32_attribute(2, meta_key))


def _compare_equal(register: int, value: bytes) -> bytes:
    operands = _uint32_attribute(1, register) + _uint32_attribute(2, _CMP_EQ) + _data_attribute(3, value)
    return _nft_expression("cmp", operands)


def _mask_and_xor(target_register: int, mask: int, xor: int) -> bytes:
    """Combine the two bytes in register 1 with a mask by AND, and then with a value by XOR."""
    registers = _uint32_attribute(1, _REGISTER_1) + _uint32_attribute(2, target_register) + _uint32_attribute(3, 2)
    operands = _data_attribute(4, struct.pack("!H", mask)) + _data_attribute(5, struct.pack("!H", xor))
    return _nft_expression("bitwise", registers + operands)


def _nft_expression(name: str, data: bytes) -> bytes:
    return _nested_attribute(1, encode_string_attribute(1, name) + _nested_attribute(2, data))


def _netlink_message(message_type: int, flags: int, sequence: int, body: bytes, *, subsystem: int = 0) -> bytes:
    family = _NFPROTO_IPV4 if not subsystem else socket.AF_UNSPEC
    content = struct.pack("!BBH", family, 0, subsystem) + body
    length = NETLINK_HEADER.size + len(content)
    return NETLINK_HEADER.pack(length, message_type, _REQUEST | flags, sequence, 0) + content


def _uint32_attribute(attribute_type: int, value: int) -> bytes:
    return encode_attribute(attribute_type, struct.pack("!I", value & 0xFFFFFFFF))


def _data_attribute(attribute_type: int, value: bytes) -> bytes:
    return _nested_attribute(attribute_type, encode_attribute(1, value))


def _nested_attribute(attribute_type: int, content: bytes) -> bytes:
    return encode_attribute(attribute_type | _NESTED, content)
