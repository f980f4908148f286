"""Encodes objects, lists and watch events as protobuf, for clients that do not accept JSON."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.protobuf.decoder import KUBERNETES_MAGIC
from pliant.embedded.apiserver.protobuf.descriptors import (
    FieldDescriptor,
    MessageDescriptor,
    find_kind,
    require_message,
)
from pliant.embedded.apiserver.protobuf.values import VALUE_TYPES
from pliant.embedded.apiserver.protobuf.wire import encode_bytes_field

_TYPE_FIELDS = ("apiVersion", "kind")


class NotRepresentable(ValueError):
    """The object, or one of its fields, has no protobuf representation."""


def encode_protobuf(obj: dict[str, Any]) -> bytes:
    """Return an object in a Kubernetes protobuf envelope; raise `NotRepresentable` if it has none."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    message = find_kind(api_version, kind)
    if message is None:
        raise NotRepresentable(f"{api_version}, Kind={kind}")
    type_meta = encode_bytes_field(1, api_version.encode()) + encode_bytes_field(2, kind.encode())
    try:
        content = _encode_message(obj, message)
    except NotRepresentable:
        raise
    except (TypeError, ValueError, AttributeError, KeyError) as error:  # a value of another type than its field
        raise NotRepresentable(f"{kind}: {error}") from error
    envelope = [encode_bytes_field(1, type_meta), encode_bytes_field(2, content)]
    return KUBERNETES_MAGIC + b"".join(envelope) + encode_bytes_field(3, b"") + encode_bytes_field(4, b"")


def encode_watch_event(event_type: str, obj: bytes) -> bytes:
    """Return a frame of a watch: its length, and an event with an encoded object."""
    raw_extension = encode_bytes_field(1, obj)
    event = encode_bytes_field(1, event_type.encode()) + encode_bytes_field(2, raw_extension)
    return len(event).to_bytes(4) + event


def _encode_message(obj: dict[str, Any], message: MessageDescriptor) -> bytes:
    parts: list[bytes] = []
    inline: dict[int, dict[str, Any]] = {}
    for name, value in obj.items():
        field = message.by_json_name.get(name)
        if field is not None:
            parts.append(_encode_field(field, value))
        elif (outer := _inline_field_with(message, name)) is not None:
            inline.setdefault(outer.number, {})[name] = value
        elif value is not None and name not in _TYPE_FIELDS:
            raise NotRepresentable(f"{name} of {message.name}")
    parts.extend(_encode_field(message.by_number[number], value) for number, value in inline.items())
    return b"".join(parts)


def _inline_field_with(message: MessageDescriptor, name: str) -> FieldDescriptor | None:
    """Return the inline field whose message contains a field."""
    for field in message.inline_fields:
        inner = require_message(field.type_name)
        if name in inner.by_json_name or _inline_field_with(inner, name) is not None:
            return field
    return None


def _encode_field(field: FieldDescriptor, value: Any) -> bytes:
    if value is None:
        return b""
    if field.is_map:
        return b"".join(
            encode_bytes_field(field.number, encode_bytes_field(1, key.encode()) + _encode_map_value(field, each))
            for key, each in sorted(value.items())
        )
    if field.is_repeated:
        return b"".join(_encode_value(field.number, field, each) for each in value)
    return _encode_value(field.number, field, value)


def _encode_map_value(field: FieldDescriptor, value: Any) -> bytes:
    return encode_bytes_field(2, b"") if value is None else _encode_value(2, field, value)


def _encode_value(number: int, field: FieldDescriptor, value: Any) -> bytes:
    value_type = VALUE_TYPES.get(field.type_name)
    if value_type is not None:
        return value_type.encode(number, value)
    message = require_message(field.type_name)
    content = _encode_union(message, value) if message.is_union else _encode_message(value or {}, message)
    return encode_bytes_field(number, content)


def _encode_union(message: MessageDescriptor, value: Any) -> bytes:
    """Encode a value as the field of a union that has its type in JSON."""
    for field in message.inline_fields:
        is_message = field.type_name not in VALUE_TYPES and not field.is_repeated
        if isinstance(value, list) if field.is_repeated else isinstance(value, dict if is_message else bool):
            # In a union of a schema and a bool, Go sets the bool for a schema, too.
            flags = [each for each in message.inline_fields if each.type_name == "bool" and each is not field]
            return b"".join([*(_encode_field(flag, True) for flag in flags), _encode_field(field, value)])
    raise NotRepresentable(f"{type(value).__name__} as {message.name}")
