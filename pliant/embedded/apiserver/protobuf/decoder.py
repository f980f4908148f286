"""Decodes request bodies in protobuf to the same objects as bodies in JSON."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.http.errors import bad_request, unsupported_media_type
from pliant.embedded.apiserver.protobuf.descriptors import (
    FieldDescriptor,
    MessageDescriptor,
    find_kind,
    has_messages,
    require_message,
)
from pliant.embedded.apiserver.protobuf.values import OMITTED_ZEROS, VALUE_TYPES
from pliant.embedded.apiserver.protobuf.wire import (
    InvalidWireFormat,
    WireValue,
    as_bytes,
    as_signed_int,
    as_text,
    decode_varint,
    iter_fields,
)

KUBERNETES_MAGIC = b"k8s\x00"
_MAX_DEPTH = 100


def decode_protobuf(body: bytes) -> dict[str, Any]:
    """Decode an object in a Kubernetes protobuf envelope; raise an error for kinds that must be sent as JSON.

    The object has the fields that Go would write as JSON: zero values are left out where Go leaves them out.
    """
    if not body.startswith(KUBERNETES_MAGIC):
        raise bad_request("the body of the request is not Kubernetes protobuf")
    try:
        envelope = dict(iter_fields(body[len(KUBERNETES_MAGIC) :]))
        type_meta = {number: as_text(value) for number, value in iter_fields(as_bytes(envelope.get(1, b"")))}
        api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
        message = find_kind(api_version, kind)
        if message is None and not has_messages(api_version):
            raise unsupported_media_type(("application/json", "application/yaml"))
        if message is None:
            raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')
        return {"apiVersion": api_version, "kind": kind, **_decode_message(as_bytes(envelope.get(2, b"")), message, 0)}
    except (InvalidWireFormat, OverflowError) as error:
        raise bad_request(f"the body of the request is not valid protobuf: {error}") from None


def _decode_message(raw: bytes, message: MessageDescriptor, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidWireFormat(f"messages are nested more than {_MAX_DEPTH} levels deep")
    decoded: dict[str, Any] = {}
    for number, value in iter_fields(raw):
        field = message.by_number.get(number)
        if field is None:
            _require_zero(number, value, message)
        elif message.is_union:
            decoded[""] = (
                [*decoded.get("", ()), _decode_value(value, field, depth)]
                if field.is_repeated
                else (_decode_value(value, field, depth))
            )
        elif not field.json_name:
            decoded |= _decode_value(value, field, depth)
        elif field.is_map:
            entry = dict(iter_fields(as_bytes(value)))
            key = as_text(entry.get(1, b""))
            decoded.setdefault(field.json_name, {})[key] = _decode_value(entry.get(2, b""), field, depth)
        elif field.is_repeated:
            decoded.setdefault(field.json_name, []).extend(_decode_repeated(value, field, depth))
        else:
            content = _decode_value(value, field, depth)
            if content is not None and (content or field.keeps_zero or field.type_name not in OMITTED_ZEROS):
                decoded[field.json_name] = content
    return decoded.get("") if message.is_union else decoded


def _decode_repeated(value: WireValue, field: FieldDescriptor, depth: int) -> list[Any]:
    """Return one element, or all elements of a packed list of numbers."""
    if field.type_name != "int" or isinstance(value, int):
        return [_decode_value(value, field, depth)]
    numbers, offset = [], 0
    while offset < len(value):
        number, offset = decode_varint(value, offset)
        numbers.append(as_signed_int(number))
    return numbers


def _decode_value(value: WireValue, field: FieldDescriptor, depth: int) -> Any:
    value_type = VALUE_TYPES.get(field.type_name)
    if value_type is not None:
        return value_type.decode(value)
    return _decode_message(as_bytes(value), require_message(field.type_name), depth + 1)


def _require_zero(number: int, value: WireValue, message: MessageDescriptor) -> None:
    """Raise `BadRequest` for a field of a newer release with a value, which would be lost; clients send zeros, too."""
    if not _is_zero(value):
        name = message.name.rpartition(".")[2]
        raise bad_request(f"field {number} of {name} is not known to this server: send JSON to see its name")


def _is_zero(value: WireValue) -> bool:
    if isinstance(value, int):
        return value == 0
    try:
        return all(_is_zero(inner) for _, inner in iter_fields(value))
    except (InvalidWireFormat, RecursionError):
        return False
