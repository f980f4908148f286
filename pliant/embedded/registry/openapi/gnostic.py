"""Encodes an OpenAPI v2 document as the protobuf message `openapi.v2.Document`, which kubectl asks for.

The numbers of the fields are those of OpenAPIv2.proto of gnostic. Only what `swagger_document` returns is encoded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from pliant.embedded.apiserver.protobuf.wire import encode_bytes_field, encode_double_field, encode_int_field

_LARGEST: Final = sys.float_info.max
_Encoder = Callable[[int, Any], bytes]


def encode_document(document: dict[str, Any]) -> bytes:
    """Return a document in protobuf."""
    info = _encode_texts(document["info"], {"title": 1, "version": 2})
    paths = [_named(2, path, _encode_path_item(item)) for path, item in document["paths"].items()]
    definitions = [_named(1, name, _encode_schema(schema)) for name, schema in document["definitions"].items()]
    return b"".join(
        (
            _text(1, document["swagger"]),
            encode_bytes_field(2, info),
            encode_bytes_field(8, b"".join(paths)),
            encode_bytes_field(9, b"".join(definitions)),
        )
    )


def _encode_schema(schema: dict[str, Any]) -> bytes:
    parts = []
    for keyword, value in schema.items():
        if keyword.startswith("x-"):
            parts.append(_extension(31, keyword, value))
        elif keyword in _SCHEMA_KEYWORDS:
            number, encode = _SCHEMA_KEYWORDS[keyword]
            parts.append(encode(number, value))
    return b"".join(parts)


def _encode_path_item(item: dict[str, Any]) -> bytes:
    operations = [
        encode_bytes_field(number, _encode_operation(item[method]))
        for method, number in {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}.items()
        if method in item
    ]
    return b"".join([*operations, *_encode_parameters(9, item.get("parameters", ()))])


def _encode_operation(operation: dict[str, Any]) -> bytes:
    responses = [_encode_response(code, response) for code, response in operation["responses"].items()]
    return b"".join(
        (
            _texts(6, operation["produces"]),
            _texts(7, operation["consumes"]),
            *_encode_parameters(8, operation.get("parameters", ())),
            encode_bytes_field(9, b"".join(responses)),
            _texts(10, operation["schemes"]),
            *(_extension(13, key, value) for key, value in operation.items() if key.startswith("x-")),
        )
    )


def _encode_response(code: str, response: dict[str, Any]) -> bytes:
    content = _text(1, response["description"])
    if "schema" in response:
        content += encode_bytes_field(2, _schema(1, response["schema"]))
    return _named(1, code, encode_bytes_field(1, content))


def _encode_parameters(number: int, parameters: Iterable[dict[str, Any]]) -> Iterable[bytes]:
    for parameter in parameters:
        if parameter["in"] == "body":
            content = _encode_texts(parameter, {"name": 2, "in": 3}) + encode_int_field(4, int(parameter["required"]))
            encoded = encode_bytes_field(1, content + _schema(5, parameter["schema"]))
        else:
            # The two kinds of parameters differ in the number of the type.
            choice, type_number = {"query": (3, 6), "path": (4, 5)}[parameter["in"]]
            content = _encode_texts(parameter, {"in": 2, "name": 4, "type": type_number})
            required = encode_int_field(1, int(parameter.get("required", False)))
            encoded = encode_bytes_field(2, encode_bytes_field(choice, required + content))
        yield encode_bytes_field(number, encode_bytes_field(1, encoded))


def _encode_texts(values: dict[str, Any], numbers: dict[str, int]) -> bytes:
    return b"".join(_text(number, values[name]) for name, number in numbers.items())


def _named(number: int, name: str, value: bytes) -> bytes:
    """Return an entry of a map: a message with a name and a value."""
    return encode_bytes_field(number, _text(1, name) + encode_bytes_field(2, value))


def _text(number: int, value: str) -> bytes:
    return encode_bytes_field(number, value.encode())


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_text(number, value) for value in values)


def _any(number: int, value: Any) -> bytes:
    """Return a value of any type: as YAML, of which JSON is a part."""
    return encode_bytes_field(number, encode_bytes_field(2, msgspec.json.encode(value)))


def _extension(number: int, name: str, value: Any) -> bytes:
    return encode_bytes_field(number, _text(1, name) + _any(2, value))


def _bound(number: int, value: float) -> bytes:
    """Return a bound of a number; an integer in JSON may exceed a double."""
    return encode_double_field(number, float(max(-_LARGEST, min(value, _LARGEST))))


def _schema(number: int, schema: dict[str, Any]) -> bytes:
    return encode_bytes_field(number, _encode_schema(schema))


def _properties(number: int, schemas: dict[str, Any]) -> bytes:
    return encode_bytes_field(number, b"".join(_named(1, name, _encode_schema(each)) for name, each in schemas.items()))


def _schema_or_boolean(number: int, value: dict[str, Any] | bool) -> bytes:
    return encode_bytes_field(number, encode_int_field(2, value) if isinstance(value, bool) else _schema(1, value))


_SCHEMA_KEYWORDS: Final[dict[str, tuple[int, _Encoder]]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "multipleOf": (6, _bound),
    "maximum": (7, _bound),
    "exclusiveMaximum": (8, encode_int_field),
    "minimum": (9, _bound),
    "exclusiveMinimum": (10, encode_int_field),
    "maxLength": (11, encode_int_field),
    "minLength": (12, encode_int_field),
    "pattern": (13, _text),
    "maxItems": (14, encode_int_field),
    "minItems": (15, encode_int_field),
    "uniqueItems": (16, encode_int_field),
    "maxProperties": (17, encode_int_field),
    "minProperties": (18, encode_int_field),
    "required": (19, _texts),
    "enum": (20, lambda number, values: b"".join(_any(number, value) for value in values)),
    "additionalProperties": (21, _schema_or_boolean),
    "type": (22, lambda number, value: encode_bytes_field(number, _text(1, value))),
    "items": (23, lambda number, value: encode_bytes_field(number, _schema(1, value))),
    "properties": (25, _properties),
    "example": (30, _any),
}
