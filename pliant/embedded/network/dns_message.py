"""DNS messages: read one question, write its answer."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

_HEADER = struct.Struct("!HHHHHH")
_QUESTION_TAIL = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION_WANTED, _RECURSION = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080
_OPCODE_MASK = 0x7800
_CLASS_IN = 1
_NAME_POINTER = b"\xc0\x0c"
"""A pointer to the name of the question, which every answer repeats."""
_TTL_SECONDS = 5
DEFAULT_UDP_SIZE = 512
"""How long an answer in a datagram may be when the asker does not say."""
_MAX_LABEL_LENGTH, _MAX_NAME_LENGTH = 63, 253


class RecordType(IntEnum):
    """What is asked about a name."""

    A = 1
    CNAME = 5
    PTR = 12
    AAAA = 28
    SRV = 33
    OPT = 41
    ANY = 255


_ADDRESS_FAMILIES = {RecordType.A: (socket.AF_INET, 4), RecordType.AAAA: (socket.AF_INET6, 16)}


class ResponseCode(IntEnum):
    """How a question was answered."""

    NO_ERROR = 0
    FORMAT_ERROR = 1
    SERVER_FAILURE = 2
    NXDOMAIN = 3
    NOT_IMPLEMENTED = 4
    REFUSED = 5


class MalformedDnsMessage(ValueError):
    """A message that is no question of the usual form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsQuestion:
    """One question, and what its answer must repeat."""

    message_id: int
    flags: int
    name: str
    record_type: int
    raw_question: bytes
    max_response_size: int = DEFAULT_UDP_SIZE
    """The longest answer in a datagram that the asker takes."""


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """One line of an answer."""

    record_type: RecordType
    data: bytes


def address_record(address: str) -> DnsRecord:
    """The address of the name that was asked for."""
    return DnsRecord(RecordType.A, socket.inet_aton(address))


def srv_record(port: int, target: str) -> DnsRecord:
    """Where the service that was asked for is."""
    return DnsRecord(RecordType.SRV, struct.pack("!HHH", 0, 100, port) + encode_name(target))


def name_record(record_type: RecordType, name: str) -> DnsRecord:
    """Another name: the true one, or the one of an address."""
    return DnsRecord(record_type, encode_name(name))


def parse_query(message: bytes) -> DnsQuestion:
    """The question of a message, with its name in lower case and without the last dot."""
    try:
        number, flags, questions, _, _, more = _HEADER.unpack_from(message)
        if flags & (_RESPONSE | _OPCODE_MASK) or questions != 1:
            raise MalformedDnsMessage("not one plain question")
        name, end = _decode_name(message, _HEADER.size)
        kind, _ = _QUESTION_TAIL.unpack_from(message, end)
    except (struct.error, IndexError, UnicodeDecodeError) as problem:
        raise MalformedDnsMessage(str(problem)) from problem
    end += _QUESTION_TAIL.size
    room = _edns_max_size(message, end) if more else DEFAULT_UDP_SIZE
    return DnsQuestion(
        message_id=number,
        flags=flags,
        name=name,
        record_type=kind,
        raw_question=message[_HEADER.size : end],
        max_response_size=room,
    )


def encode_query(message_id: int, name: str, record_type: RecordType) -> bytes:
    """A message that asks one question, of somebody who may ask others."""
    header = _HEADER.pack(message_id, _RECURSION_WANTED, 1, 0, 0, 0)
    return header + encode_name(name) + _QUESTION_TAIL.pack(record_type, _CLASS_IN)


def parse_addresses(message: bytes) -> list[str]:
    """The addresses that an answer holds, of whatever names it led over."""
    try:
        _, _, questions, answers, _, _ = _HEADER.unpack_from(message)
        place = _HEADER.size
        for _ in range(questions):
            place = _skip_name(message, place) + _QUESTION_TAIL.size
        found = []
        for _ in range(answers):
            place = _skip_name(message, place)
            kind, _, _, length = _RECORD.unpack_from(message, place)
            place += _RECORD.size + length
            if kind in _ADDRESS_FAMILIES and length == _ADDRESS_FAMILIES[kind][1]:
                found.append(socket.inet_ntop(_ADDRESS_FAMILIES[kind][0], message[place - length : place]))
    except (struct.error, IndexError, ValueError) as problem:
        raise MalformedDnsMessage(str(problem)) from problem
    return found


def is_truncated(message: bytes) -> bool:
    """Whether an answer was too long for a datagram."""
    return bool(int.from_bytes(message[2:4], "big") & _TRUNCATED)


def encode_response(
    question: DnsQuestion,
    records: Sequence[DnsRecord],
    code: ResponseCode = ResponseCode.NO_ERROR,
    *,
    max_size: int = 65535,
) -> bytes:
    """The message that answers a question; one that would be too long says so and holds nothing."""
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION | question.flags & _RECURSION_WANTED | code
    lines = b"".join(
        _NAME_POINTER + _RECORD.pack(each.record_type, _CLASS_IN, _TTL_SECONDS, len(each.data)) + each.data
        for each in records
    )
    count = len(records)
    if _HEADER.size + len(question.raw_question) + len(lines) > max_size:
        flags, lines, count = flags | _TRUNCATED, b"", 0
    return _HEADER.pack(question.message_id, flags, 1, count, 0, 0) + question.raw_question + lines


def encode_name(name: str) -> bytes:
    """A name as messages hold it."""
    labels = [label.encode() for label in name.rstrip(".").split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def is_encodable_name(name: str) -> bool:
    """Whether a message can hold a name."""
    labels = name.rstrip(".").split(".")
    return (
        name.isascii() and len(name) <= _MAX_NAME_LENGTH and all(0 < len(each) <= _MAX_LABEL_LENGTH for each in labels)
    )


def _decode_name(message: bytes, offset: int) -> tuple[str, int]:
    labels = []
    while length := message[offset]:
        if length > _MAX_LABEL_LENGTH:
            raise MalformedDnsMessage("a question's name cannot be abbreviated")
        labels.append(message[offset + 1 : offset + 1 + length].decode("ascii").lower())
        offset += 1 + length
    return ".".join(labels), offset + 1


def _skip_name(message: bytes, offset: int) -> int:
    """Where a name ends that may be abbreviated."""
    while length := message[offset]:
        if length > _MAX_LABEL_LENGTH:
            return offset + 2
        offset += 1 + length
    return offset + 1


def _edns_max_size(message: bytes, offset: int) -> int:
    """How long a datagram may be, from the extra record that says so."""
    try:
        kind, size = struct.unpack_from("!HH", message, offset + 1)
    except struct.error:
        return DEFAULT_UDP_SIZE
    return (
        max(DEFAULT_UDP_SIZE, min(size, 4096)) if message[offset] == 0 and kind == RecordType.OPT else DEFAULT_UDP_SIZE
    )
