"""Encoding of responses as JSON: objects, lists and Status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pliant.embedded.apiserver.http.errors import PageNotFound
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import StoredObject
from pliant.errors import ApiError
from pliant.kube.transport.base import Reply

# Larger writes block the event loop while TLS encrypts them, above all if many clients get a list in the same round.
_RESPONSE_CHUNK_BYTES = 64 * 1024
_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}
_encode = msgspec.json.Encoder().encode


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(status=status, body=_encode(content), headers=headers or {})


def created_status_response() -> Reply:
    """Return the success Status of a created subresource, such as a binding or an eviction."""
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def error_response(error: ApiError) -> Reply:
    if isinstance(error, PageNotFound):
        body = f"{error.message}\n".encode()
        return Reply(status=error.status, body=body, content_type="text/plain; charset=utf-8", headers=_NO_SNIFF)
    headers = {"Retry-After": str(int(error.retry_after))} if error.retry_after is not None else {}
    return json_response(status_from_error(error), error.status, headers)


def status_from_error(error: ApiError) -> dict[str, Any]:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": error.message}
    # `details` is present even when it is empty, because some clients read it without a check.
    return {**status, "reason": error.reason, "details": error.details, "code": error.status}


def deletion_success_status(kind: Kind, name: str, uid: str) -> dict[str, Any]:
    details = {"name": name, "kind": kind.plural, "uid": uid, **({"group": kind.group} if kind.group else {})}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def encode_served_object(kind: Kind, record: StoredObject) -> bytes:
    """Return the JSON of an object in the API version of `kind`, without decoding it when it is stored that way."""
    prefix = f'{{"apiVersion":"{kind.api_version}"'.encode()
    if record.body.startswith(prefix):
        return record.body
    return _encode(kind.to_served(record.decode()))


def write_response(kind: Kind, record: StoredObject, warnings: Sequence[str], status: int = 200) -> Reply:
    """Return the reply to a write."""
    return Reply(status=status, body=encode_served_object(kind, record), headers=warning_headers(warnings))


def encode_list_chunks(kind: Kind, records: Sequence[StoredObject], metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the JSON of a list in chunks; the objects are not decoded."""
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    return join_into_chunks(_iter_list_parts(kind, records, _encode(head)[:-1] + b',"items":['))


def _iter_list_parts(kind: Kind, records: Sequence[StoredObject], head: bytes) -> Iterator[bytes]:
    yield head
    for number, record in enumerate(records):
        body = encode_served_object(kind, record)
        yield b"," + body if number else body
    yield b"]}"


def join_into_chunks(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join parts into chunks of a size that suits a socket."""
    chunk: list[bytes] = []
    size = 0
    for part in parts:
        chunk.append(part)
        size += len(part)
        if size >= _RESPONSE_CHUNK_BYTES:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)


def warning_headers(messages: Sequence[str]) -> dict[str, str]:
    """Return the Warning header, which kubectl prints, for these messages."""
    if not messages:
        return {}
    printable = ("".join(char if char.isprintable() else "?" for char in message) for message in messages)
    quoted = (message.replace("\\", "\\\\").replace('"', '\\"') for message in printable)
    return {"Warning": ", ".join(f'299 - "{message}"' for message in quoted)}
