"""DNS messages: read one question, write its answer."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

_HEADER = struct.Struct("!HHHHHH")
_ENDING = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_WANTED, _RECURSION = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_OPERATION = 0x7800
_INTERNET = 1
_SAME_NAME = b"\xc0\x0c"
"""A pointer to the name of the question, which every answer repeats."""
_LIFETIME = 5
PLAIN_SIZE = 512
"""How long an answer in a datagram may be when the asker does not say."""
_LONGEST_LABEL, _LONGEST_NAME = 63, 253


class Kind(IntEnum):
    """What is asked about a name."""

    A = 1
    CNAME = 5
    PTR = 12
    AAAA = 28
    SRV = 33
    SIZE = 41
    ANY = 255


_FAMILIES = {Kind.A: (socket.AF_INET, 4), Kind.AAAA: (socket.AF_INET6, 16)}


class Code(IntEnum):
    """How a question was answered."""

    FINE = 0
    NOT_UNDERSTOOD = 1
    FAILED = 2
    NO_SUCH_NAME = 3
    NOT_OFFERED = 4
    REFUSED = 5


class Unreadable(ValueError):
    """A message that is no question of the usual form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question, and what its answer must repeat."""

    number: int
    flags: int
    name: str
    kind: int
    section: bytes
    room: int = PLAIN_SIZE
    """The longest answer in a datagram that the asker takes."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of an answer."""

    kind: Kind
    data: bytes


def address_record(address: str) -> Record:
    """The address of the name that was asked for."""
    return Record(Kind.A, socket.inet_aton(address))


def service_record(port: int, target: str) -> Record:
    """Where the service that was asked for is."""
    return Record(Kind.SRV, struct.pack("!HHH", 0, 100, port) + encoded_name(target))


def name_record(kind: Kind, name: str) -> Record:
    """Another name: the true one, or the one of an address."""
    return Record(kind, encoded_name(name))


def read_question(message: bytes) -> Question:
    """The question of a message, with its name in lower case and without the last dot."""
    try:
        number, flags, questions, _, _, more = _HEADER.unpack_from(message)
        if flags & (_RESPONSE | _OPERATION) or questions != 1:
            raise Unreadable("not one plain question")
        name, end = _read_name(message, _HEADER.size)
        kind, _ = _ENDING.unpack_from(message, end)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise Unreadable(str(problem)) from problem
    end += _ENDING.size
    room = _room(message, end) if more else PLAIN_SIZE
    return Question(
        number=number, flags=flags, name=name, kind=kind, section=message[_HEADER.size : end], room=room
    )


def question(number: int, name: str, kind: Kind) -> bytes:
    """A message that asks one question, of somebody who may ask others."""
    header = _HEADER.pack(number, _RECURSION_WANTED, 1, 0, 0, 0)
    return header + encoded_name(name) + _ENDING.pack(kind, _INTERNET)


def addresses_in(message: bytes) -> list[str]:
    """The addresses that an answer holds, of whatever names it led over."""
    try:
        _, _, questions, answers, _, _ = _HEADER.unpack_from(message)
        place = _HEADER.size
        for _ in range(questions):
            place = _after_name(message, place) + _ENDING.size
        found = []
        for _ in range(answers):
            place = _after_name(message, place)
            kind, _, _, length = _RECORD.unpack_from(message, place)
            place += _RECORD.size + length
            if kind in _FAMILIES and length == _FAMILIES[kind][1]:
                found.append(socket.inet_ntop(_FAMILIES[kind][0], message[place - length : place]))
    except (struct.error, IndexError, ValueError) as problem:
        raise Unreadable(str(problem)) from problem
    return found


def is_cut(message: bytes) -> bool:
    """Whether an answer was too long for a datagram."""
    return bool(int.from_bytes(message[2:4], "big") & _TRUNCATED)


def answer(question: Question, records: Sequence[Record], code: Code = Code.FINE, *, room: int = 65535) -> bytes:
    """The message that answers a question; one that would be too long says so and holds nothing."""
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION | question.flags & _RECURSION_WANTED | code
    lines = b"".join(
        _SAME_NAME + _RECORD.pack(each.kind, _INTERNET, _LIFETIME, len(each.data)) + each.data for each in records
    )
    count = len(records)
    if _HEADER.size + len(question.section) + len(lines) > room:
        flags, lines, count = flags | _TRUNCATED, b"", 0
    return _HEADER.pack(question.number, flags, 1, count, 0, 0) + question.section + lines


def encoded_name(name: str) -> bytes:
    """A name as messages hold it."""
    labels = [label.encode() for label in name.rstrip(".").split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def is_name(text: str) -> bool:
    """Whether a message can hold a name."""
    labels = text.rstrip(".").split(".")
    return (
        text.isascii() and len(text) <= _LONGEST_NAME and all(0 < len(each) <= _LONGEST_LABEL for each in labels)
    )


def _read_name(message: bytes, place: int) -> tuple[str, int]:
    labels = []
    while length := message[place]:
        if length > _LONGEST_LABEL:
            raise Unreadable("a question's name cannot be abbreviated")
        labels.append(message[place + 1 : place + 1 + length].decode("ascii").lower())
        place += 1 + length
    return ".".join(labels), place + 1


def _after_name(message: bytes, place: int) -> int:
    """Where a name ends that may be abbreviated."""
    while length := message[place]:
        if length > _LONGEST_LABEL:
            return place + 2
        place += 1 + length
    return place + 1


def _room(message: bytes, place: int) -> int:
    """How long a datagram may be, from the extra record that says so."""
    try:
        kind, size = struct.unpack_from("!HH", message, place + 1)
    except struct.error:
        return PLAIN_SIZE
    return max(PLAIN_SIZE, min(size, 4096)) if message[place] == 0 and kind == Kind.SIZE else PLAIN_SIZE
