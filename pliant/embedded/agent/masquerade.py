"""A little nfnetlink: let everything that leaves by one link bear that link's address, and refusals be heard."""

from __future__ import annotations

import os
import socket
import struct

_NETFILTER = 12
"""The protocol of netlink sockets that speak of packet filters."""
_IPV4 = 2
_TABLES = 10
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = (_TABLES << 8 | number for number in (0, 3, 6))
_BEGIN, _END = 0x10, 0x11
_ERROR = 2
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_NESTED = 0x8000
_BEFORE_ROUTING, _FIRST_OF_ALL = 0, -300
_AFTER_ROUTING, _AS_SOURCE = 4, 100
_REGISTER, _OTHER = 1, 2
_INNER_NAME, _OUTER_NAME, _PROTOCOL, _EQUAL = 6, 7, 16, 0
_TCP = b"\x06"
_TRANSPORT, _FLAGS, _CHECKSUM, _INTERNET = 2, 12, 16, 1
_RESET, _ACKNOWLEDGED = 0x04, 0x10
_NAME_LENGTH = 16
_HEADER = struct.Struct("=IHHII")
_NAME = "pliant"


def masquerade(link: str) -> None:
    """Have answers to all that goes out by `link` come back through it, whoever in this network sent it.

    Some programs at the other end refuse connections by a reset that acknowledges nothing, which the kernel would
    take for a forged one and wait on: it is made whole.
    """
    requests = [
        (_NEW_TABLE, _text(1, _NAME)),
        _chain("out", "nat", _AFTER_ROUTING, _AS_SOURCE),
        _rule("out", _name_is(_OUTER_NAME, link), _expression("masq", b"")),
        _chain("in", "filter", _BEFORE_ROUTING, _FIRST_OF_ALL),
        _rule("in", _name_is(_INNER_NAME, link), _is_tcp(), _reset_made_whole()),
    ]
    batch = _message(_BEGIN, 0, 0, b"", about=_TABLES)
    for number, (kind, body) in enumerate(requests, start=1):
        batch += _message(kind, _ACK | _CREATE | _APPEND, number, body)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as talk:
        talk.bind((0, 0))
        talk.send(batch + _message(_END, 0, len(requests) + 1, b"", about=_TABLES))
        for _ in requests:
            _check(talk.recv(8192))


def _check(answer: bytes) -> None:
    _, kind, _, _, _ = _HEADER.unpack_from(answer)
    (error,) = struct.unpack_from("=i", answer, _HEADER.size)
    if kind != _ERROR or error != 0:
        raise OSError(-error, os.strerror(-error), "nftables")


def _chain(name: str, kind: str, hook: int, priority: int) -> tuple[int, bytes]:
    where = _nested(4, _number(1, hook) + _number(2, priority))
    return _NEW_CHAIN, _text(1, _NAME) + _text(3, name) + where + _text(7, kind)


def _rule(chain: str, *expressions: bytes) -> tuple[int, bytes]:
    return _NEW_RULE, _text(1, _NAME) + _text(2, chain) + _nested(4, b"".join(expressions))


def _name_is(which: int, link: str) -> bytes:
    return _known(which) + _is(_REGISTER, link.encode().ljust(_NAME_LENGTH, b"\0"))


def _is_tcp() -> bytes:
    return _known(_PROTOCOL) + _is(_REGISTER, _TCP)


def _reset_made_whole() -> bytes:
    place = _number(2, _TRANSPORT) + _number(3, _FLAGS) + _number(4, 2)
    return (
        _expression("payload", _number(1, _REGISTER) + place)
        + _bits(_OTHER, _RESET | _ACKNOWLEDGED, 0)
        + _is(_OTHER, struct.pack("!H", _RESET))
        + _bits(_REGISTER, 0xFFFF ^ _ACKNOWLEDGED, _ACKNOWLEDGED)
        + _expression("payload", place + _number(5, _REGISTER) + _number(6, _INTERNET) + _number(7, _CHECKSUM))
    )


def _known(what: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER) + _number(2, what))


def _is(register: int, value: bytes) -> bytes:
    return _expression("cmp", _number(1, register) + _number(2, _EQUAL) + _value(3, value))


def _bits(target: int, kept: int, turned: int) -> bytes:
    """Two bytes with only some bits kept, and then some of them turned over."""
    halves = _value(4, struct.pack("!H", kept)) + _value(5, struct.pack("!H", turned))
    return _expression("bitwise", _number(1, _REGISTER) + _number(2, target) + _number(3, 2) + halves)


def _expression(name: str, data: bytes) -> bytes:
    return _nested(1, _text(1, name) + _nested(2, data))


def _message(kind: int, flags: int, number: int, body: bytes, *, about: int = 0) -> bytes:
    family = _IPV4 if not about else socket.AF_UNSPEC
    content = struct.pack("!BBH", family, 0, about) + body
    return _HEADER.pack(_HEADER.size + len(content), kind, _REQUEST | flags, number, 0) + content


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value & 0xFFFFFFFF))


def _value(kind: int, value: bytes) -> bytes:
    return _nested(kind, _attribute(1, value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _nested(kind: int, content: bytes) -> bytes:
    return _attribute(kind | _NESTED, content)


def _attribute(kind: int, value: bytes) -> bytes:
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + b"\0" * (-length % 4)
