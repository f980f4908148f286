"""Replies: objects, lists and Status, in JSON bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import StoredObject
from pliant.errors import ApiError
from pliant.kube.transport.base import Reply

RESPONSE_CHUNK_BYTES = 256 * 1024
"""Larger writes stall an event loop that speaks TLS."""

_encode = msgspec.json.Encoder().encode


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Any content as a complete reply."""
    return Reply(status=status, body=_encode(content), headers=headers or {})


def error_response(error: ApiError) -> Reply:
    """An error as the Status clients expect."""
    headers = {"Retry-After": str(int(error.retry_after))} if error.retry_after is not None else {}
    return json_response(status_from_error(error), error.status, headers)


def status_from_error(error: ApiError) -> dict[str, Any]:
    """The Status that tells of an error."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.message}
    # Always there, as the real server has it: some clients look inside without looking whether.
    return {**status, "reason": error.reason, "details": error.details, "code": error.status}


def deletion_success_status(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    """The Status that tells of a finished deletion."""
    details = {"name": name, "kind": kind.plural, "uid": uid, **({"group": kind.group} if kind.group else {})}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def encode_in_version(kind: Kind, record: StoredObject) -> bytes:
    """The bytes of an object in the version a client asked for."""
    prefix = f'{{"apiVersion":"{kind.api_version}"'.encode()
    if record.body.startswith(prefix):
        return record.body
    return _encode(kind.to_served(record.decode()))


def encode_list_chunks(kind: Kind, records: Sequence[StoredObject], metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """A list as pieces of JSON, no object decoded on the way."""
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    piece = [_encode(head)[:-1] + b',"items":[']
    size = 0
    for number, record in enumerate(records):
        body = encode_in_version(kind, record)
        piece.append(b"," + body if number else body)
        size += len(body)
        if size >= RESPONSE_CHUNK_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    piece.append(b"]}")
    yield b"".join(piece)


def warning_headers(messages: Sequence[str]) -> dict[str, str]:
    """Headers that make kubectl print warnings."""
    if not messages:
        return {}
    printable = ("".join(char if char.isprintable() else "?" for char in message) for message in messages)
    quoted = (message.replace("\\", "\\\\").replace('"', '\\"') for message in printable)
    return {"Warning": ", ".join(f'299 - "{message}"' for message in quoted)}
