"""Every served kind has a protobuf representation that says what its JSON says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from pliant.embedded.apiserver.protobuf.decoder import decode_protobuf
from pliant.embedded.apiserver.protobuf.descriptors import (
    FieldDescriptor,
    MessageDescriptor,
    find_kind,
    require_message,
)
from pliant.embedded.apiserver.protobuf.encoder import NotRepresentable, encode_protobuf
from pliant.embedded.apiserver.protobuf.values import VALUE_TYPES
from pliant.embedded.registry.builtin_kinds import builtin_kinds
from pliant.embedded.registry.kinds import Kind
from tests.depth import IS_DEEP, SEED

KINDS = [kind for kind in builtin_kinds() if not kind.is_custom]
OBJECTS = 200 if IS_DEEP else 8
MAX_DEPTH = 9
VALUES: dict[str, list[Any]] = {
    "string": ["a", "ünï ☃", "x" * 300, "\x00\n"],
    "bool": [True],
    "int": [1, -1, 127, 128, 2**31 - 1, -(2**31)],
    "double": [1.5, -0.25, 1e300],
    "bytes": ["AAH/", "YQ=="],
    "strings": [["a"], ["a", ""]],
    "Duration": ["30s", "1h30m0s", "1.5s", "20ms", "-1m0s"],
    "FieldsV1": [{"f:metadata": {"f:labels": {".": {}}}}],
    "IntOrString": [0, 80, -1, "http", ""],
    "JSON": [{"a": [1, None, 1.5]}, [1], "text", False],
    "MicroTime": ["2030-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.500000Z"],
    "Quantity": ["1", "100m", "1Gi", "-5"],
    "RawExtension": [{"apiVersion": "v1", "kind": "List", "items": [1]}],
    "Time": ["2030-01-01T00:00:00Z", "0999-01-01T00:00:00Z"],
}
ZEROS: dict[str, Any] = {"string": "", "bool": False, "int": 0, "double": 0.0}
TYPE_META = ("apiVersion", "kind")


class Generator:
    """Generates objects at random, with the fields of a schema and values of the types of a message."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def object_of(self, kind: Kind) -> dict[str, Any]:
        message = find_kind(kind.api_version, kind.kind)
        assert message is not None
        schema = kind.schema.openapi if kind.schema is not None else {}
        return {**self._message(message, schema, 0), "apiVersion": kind.api_version, "kind": kind.kind}

    def _message(self, message: MessageDescriptor, schema: Mapping[str, Any], depth: int) -> Any:
        if message.is_union:
            field = self._random.choice(message.inline_fields)
            return self._field(field, {}, depth)
        made: dict[str, Any] = {}
        properties = schema.get("properties") or {}
        for field in json_fields(message):
            is_known = field.json_name in properties or not properties
            if is_known and field.json_name not in TYPE_META and self._random.random() < (0.9 if depth < 2 else 0.4):
                made[field.json_name] = self._field(field, properties.get(field.json_name, {}), depth)
        return {name: value for name, value in made.items() if value is not None}

    def _field(self, field: FieldDescriptor, schema: Mapping[str, Any], depth: int) -> Any:
        if depth > MAX_DEPTH:
            return None
        if field.is_map:
            value = self._value(field, schema.get("additionalProperties") or {}, depth, may_be_zero=True)
            return {"key": value} if value is not None else None
        if field.is_repeated:
            items = [self._value(field, schema.get("items") or {}, depth, may_be_zero=True) for _ in range(2)]
            return [item for item in items if item is not None] or None
        return self._value(field, schema, depth, may_be_zero=field.keeps_zero)

    def _value(self, field: FieldDescriptor, schema: Mapping[str, Any], depth: int, *, may_be_zero: bool) -> Any:
        if field.type_name not in VALUE_TYPES:
            return self._message(require_message(field.type_name), schema, depth + 1)
        if may_be_zero and field.type_name in ZEROS and self._random.random() < 0.3:
            return ZEROS[field.type_name]
        return self._random.choice(VALUES[field.type_name])


def json_fields(message: MessageDescriptor) -> list[FieldDescriptor]:
    """Return the fields of the JSON object, with those of its inline messages."""
    inline = [field for outer in message.inline_fields for field in json_fields(require_message(outer.type_name))]
    return [*message.by_json_name.values(), *inline]


def missing_fields(message: MessageDescriptor, schema: Mapping[str, Any], path: str) -> list[str]:
    """Return the paths of the schema that the message does not have."""
    if message.is_union:
        return []
    fields = {field.json_name: field for field in json_fields(message)}
    missing = []
    for name, inner in (schema.get("properties") or {}).items():
        field = fields.get(name)
        if field is None:
            missing += [] if not path and name in TYPE_META else [f"{path}.{name}"]
        elif field.type_name not in VALUE_TYPES:
            inner = inner.get("additionalProperties" if field.is_map else "items", inner)
            missing += missing_fields(require_message(field.type_name), inner, f"{path}.{name}")
    return missing


def name_of(kind: Kind) -> str:
    return f"{kind.api_version}-{kind.kind}"


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_a_served_kind_has_a_message_with_all_fields_of_its_schema(kind: Kind) -> None:
    message = find_kind(kind.api_version, kind.kind)
    assert message is not None, "add its group to scripts/update-descriptors"
    assert kind.schema is None or missing_fields(message, kind.schema.openapi, "") == []
    if "list" in kind.verbs:
        assert find_kind(kind.api_version, kind.list_kind) is not None


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_an_object_in_protobuf_is_the_object_in_json(kind: Kind) -> None:
    generator = Generator(f"{SEED} {kind.api_version} {kind.kind}")
    for _ in range(OBJECTS):
        made = generator.object_of(kind)
        assert decode_protobuf(encode_protobuf(made)) == made


@pytest.mark.parametrize("kind", [kind for kind in builtin_kinds() if kind.is_custom], ids=name_of)
def test_a_custom_kind_has_no_message(kind: Kind) -> None:
    assert find_kind(kind.api_version, kind.kind) is None
    assert find_kind(kind.api_version, "Status") is not None  # errors have one in every version


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"metadata": {"name": "a", "unknown": 1}},
        {"metadata": {"name": 1}},
        {"metadata": "a"},
        {"metadata": {"creationTimestamp": "yesterday"}},
        {"metadata": {"creationTimestamp": "2030-01-01T00:00:00"}},
        {"data": {"a": 1}},
        {"data": []},
        {"binaryData": {"a": "?"}},
    ],
)
def test_what_protobuf_cannot_say_is_not_left_out(changes: dict[str, Any]) -> None:
    with pytest.raises(NotRepresentable):
        encode_protobuf({"apiVersion": "v1", "kind": "ConfigMap", **changes})
