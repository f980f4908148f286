"""DNS messages: parsing of queries and responses, and their encoding."""

from __future__ import annotations

import asyncio
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
"""A compressed name: a pointer to the name of the question."""
_TTL_SECONDS = 5
DEFAULT_UDP_RESPONSE_BYTES = 512
"""Maximum size of a UDP response without EDNS."""
_MAX_LABEL_LENGTH, _MAX_NAME_LENGTH = 63, 253


class RecordType(IntEnum):
    A = 1
    CNAME = 5
    PTR = 12
    AAAA = 28
    SRV = 33
    OPT = 41
    ANY = 255


_ADDRESS_FAMILIES = {RecordType.A: (socket.AF_INET, 4), RecordType.AAAA: (socket.AF_INET6, 16)}


class ResponseCode(IntEnum):
    NO_ERROR = 0
    SERVER_FAILURE = 2
    NXDOMAIN = 3


class MalformedDnsMessage(ValueError):
    """The message is not a standard query with one question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DnsQuestion:
    message_id: int
    flags: int
    name: str
    record_type: int
    raw_question: bytes
    max_response_size: int = DEFAULT_UDP_RESPONSE_BYTES


@dataclass(frozen=True, slots=True)
class DnsRecord:
    record_type: RecordType
    data: bytes


def address_record(address: str) -> DnsRecord:
    return DnsRecord(RecordType.A, socket.inet_aton(address))


def srv_record(port: int, target: str) -> DnsRecord:
    return DnsRecord(RecordType.SRV, struct.pack("!HHH", 0, 100, port) + encode_name(target))


def name_record(record_type: RecordType, name: str) -> DnsRecord:
    return DnsRecord(record_type, encode_name(name))


def parse_query(message: bytes) -> DnsQuestion:
    """Return the question of a message; its name is in lower case, without the trailing dot."""
    try:
        message_id, flags, questions, _, _, additional_count = _HEADER.unpack_from(message)
        if flags & (_RESPONSE | _OPCODE_MASK) or questions != 1:
            raise MalformedDnsMessage("not a standard query with one question")
        name, end = _decode_name(message, _HEADER.size)
        record_type, _ = _QUESTION_TAIL.unpack_from(message, end)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedDnsMessage(str(error)) from error
    end += _QUESTION_TAIL.size
    max_response_size = _edns_max_size(message, end) if additional_count else DEFAULT_UDP_RESPONSE_BYTES
    return DnsQuestion(
        message_id=message_id,
        flags=flags,
        name=name,
        record_type=record_type,
        raw_question=message[_HEADER.size : end],
        max_response_size=max_response_size,
    )


def encode_query(message_id: int, name: str, record_type: RecordType) -> bytes:
    header = _HEADER.pack(message_id, _RECURSION_WANTED, 1, 0, 0, 0)
    return header + encode_name(name) + _QUESTION_TAIL.pack(record_type, _CLASS_IN)


def parse_addresses(message: bytes) -> list[str]:
    try:
        _, _, questions, answers, _, _ = _HEADER.unpack_from(message)
        offset = _HEADER.size
        for _ in range(questions):
            offset = _skip_name(message, offset) + _QUESTION_TAIL.size
        addresses = []
        for _ in range(answers):
            offset = _skip_name(message, offset)
            record_type, _, _, length = _RECORD.unpack_from(message, offset)
            offset += _RECORD.size + length
            if record_type in _ADDRESS_FAMILIES and length == _ADDRESS_FAMILIES[record_type][1]:
                addresses.append(socket.inet_ntop(_ADDRESS_FAMILIES[record_type][0], message[offset - length : offset]))
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedDnsMessage(str(error)) from error
    return addresses


def is_truncated(message: bytes) -> bool:
    return bool(int.from_bytes(message[2:4], "big") & _TRUNCATED)


def encode_response(
    question: DnsQuestion,
    records: Sequence[DnsRecord],
    code: ResponseCode = ResponseCode.NO_ERROR,
    *,
    max_size: int = 65535,
) -> bytes:
    """Return the response to a question; without records and with the truncated flag if it exceeds `max_size`."""
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION | question.flags & _RECURSION_WANTED | code
    answers = b"".join(
        _NAME_POINTER + _RECORD.pack(each.record_type, _CLASS_IN, _TTL_SECONDS, len(each.data)) + each.data
        for each in records
    )
    count = len(records)
    if _HEADER.size + len(question.raw_question) + len(answers) > max_size:
        flags, answers, count = flags | _TRUNCATED, b"", 0
    return _HEADER.pack(question.message_id, flags, 1, count, 0, 0) + question.raw_question + answers


def encode_name(name: str) -> bytes:
    labels = [label.encode() for label in name.rstrip(".").split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def is_encodable_name(name: str) -> bool:
    labels = name.rstrip(".").split(".")
    return (
        name.isascii() and len(name) <= _MAX_NAME_LENGTH and all(0 < len(each) <= _MAX_LABEL_LENGTH for each in labels)
    )


def _decode_name(message: bytes, offset: int) -> tuple[str, int]:
    labels = []
    while length := message[offset]:
        if length > _MAX_LABEL_LENGTH:
            raise MalformedDnsMessage("the name of a question must not be compressed")
        labels.append(message[offset + 1 : offset + 1 + length].decode("ascii").lower())
        offset += 1 + length
    return ".".join(labels), offset + 1


def _skip_name(message: bytes, offset: int) -> int:
    while length := message[offset]:
        if length > _MAX_LABEL_LENGTH:
            return offset + 2
        offset += 1 + length
    return offset + 1


_TCP_LENGTH = struct.Struct("!H")


async def read_tcp_message(reader: asyncio.StreamReader) -> bytes:
    (length,) = _TCP_LENGTH.unpack(await reader.readexactly(_TCP_LENGTH.size))
    return await reader.readexactly(length)


def frame_tcp_message(message: bytes) -> bytes:
    return _TCP_LENGTH.pack(len(message)) + message


def _edns_max_size(message: bytes, offset: int) -> int:
    try:
        record_type, size = struct.unpack_from("!HH", message, offset + 1)
    except struct.error:
        return DEFAULT_UDP_RESPONSE_BYTES
    has_edns = message[offset] == 0 and record_type == RecordType.OPT
    return max(DEFAULT_UDP_RESPONSE_BYTES, min(size, 4096)) if has_edns else DEFAULT_UDP_RESPONSE_BYTES
