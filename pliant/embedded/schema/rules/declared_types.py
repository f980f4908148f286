"""The CEL types of a schema, with the sizes from which costs are estimated, and the conversion of values."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

from pliant.embedded.cel import types
from pliant.embedded.cel.functions.time import parse_date_or_timestamp, parse_duration
from pliant.embedded.cel.types import Type
from pliant.embedded.cel.values import Duration, EvaluationError, MapList, ObjectValue, SetList
from pliant.embedded.schema.rules.property_names import escape_property

MAX_REQUEST_BYTES: Final = 3 * 1024 * 1024
JsonSchema = Mapping[str, Any]
_METADATA: Final = {"type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}}
_OBJECT_PROPERTIES: Final = {"kind": {"type": "string"}, "apiVersion": {"type": "string"}, "metadata": _METADATA}


@dataclass(frozen=True, slots=True, eq=False)
class DeclaredType:
    """The type of a node of a schema."""

    type: Type
    convert: Callable[[Any], Any]
    """From the value in an object to the value in expressions."""
    min_size: int
    """The fewest bytes of the value as JSON."""
    max_elements: int = 0
    """The most elements or characters; 0 if the type has none."""
    fields: DeclaredFields | None = None
    element: DeclaredType | None = None

    def field(self, name: str) -> DeclaredType | None:
        """Return a field of an object by its name in expressions."""
        return self.fields.find(name) if self.fields is not None else None


class DeclaredFields:
    """The fields of an object type, declared when they are used: most schemas have far more than expressions use."""

    def __init__(self, schema: JsonSchema, name: str, structs: Structs) -> None:
        self._properties: JsonSchema = schema.get("properties", {})
        self._name = name
        self._structs = structs
        self._declared: dict[str, DeclaredType | None] = {}

    @cached_property
    def json_names(self) -> Mapping[str, str]:
        """The names of properties by their names in expressions."""
        escaped = {name: escape_property(name) for name in self._properties}
        return {key: name for name, key in escaped.items() if key is not None}

    def find(self, name: str) -> DeclaredType | None:
        json_name = self.json_names.get(name)
        return self._declare(json_name) if json_name is not None else None

    def convert(self, name: str, value: Any) -> Any:
        declared = self.find(name)
        return declared.convert(value) if declared is not None else value

    def min_size(self, required: Iterable[str]) -> int:
        """Return the fewest bytes of an object with its required fields."""
        size = 2
        for name in required:
            declared = self._declare(name) if name in self._properties else None
            if declared is not None and self._properties[name].get("default") is None:
                size += len(name) + declared.min_size + 4
        return size

    def _declare(self, name: str) -> DeclaredType | None:
        if name not in self._declared:
            path = f"{self._name}.{escape_property(name)}"
            self._declared[name] = declare_type(self._properties[name], path, self._structs)
        return self._declared[name]


Structs = dict[str, DeclaredFields]
"""The object types that have been declared, by their names."""


def with_object_properties(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an object with its type, name and generateName, which rules of the root may use."""
    return {**schema, "type": "object", "properties": {**schema.get("properties", {}), **_OBJECT_PROPERTIES}}


def declare_type(schema: JsonSchema, name: str, structs: Structs, *, is_resource: bool = False) -> DeclaredType | None:
    """Return the type of a schema, and add its objects to `structs`; None if expressions cannot use its values."""
    if schema.get("x-kubernetes-int-or-string"):
        limit = _max_length(schema) if "maxLength" in schema else MAX_REQUEST_BYTES - 2
        return DeclaredType(types.DYN, _identity, 1, limit)
    if (is_resource or schema.get("x-kubernetes-embedded-resource")) and schema.get("type"):
        schema = with_object_properties(schema)
    match schema.get("type"):
        case "array":
            declared = _declare_list(schema, name, structs)
        case "object":
            declared = _declare_object(schema, name, structs)
        case "string":
            declared = _declare_string(schema)
        case "boolean":
            declared = DeclaredType(types.BOOL, _identity, 4)
        case "number":
            declared = DeclaredType(types.DOUBLE, float, 1)
        case "integer":
            declared = DeclaredType(types.INT, _convert_integer, 1)
        case _:
            return None
    if declared is None or not schema.get("nullable"):
        return declared
    return replace(declared, convert=partial(_convert_nullable, declared.convert))


def _identity(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def _convert_integer(value: Any) -> int:
    """Return an integer; a whole number with a fraction, which is one for a schema, is none for a rule."""
    if type(value) is float:
        raise EvaluationError("invalid data, expected int, got float64")
    return int(value)


def _convert_nullable(convert: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else convert(value)


def _declare_list(schema: JsonSchema, name: str, structs: Structs) -> DeclaredType | None:
    items = declare_type(schema.get("items", {}), f"{name}.@idx", structs)
    if items is None:
        return None
    default_limit = (MAX_REQUEST_BYTES - 2) // (items.min_size + 1)
    keys = tuple(escape_property(key) or key for key in schema.get("x-kubernetes-list-map-keys", ()))
    convert = partial(_convert_list, items.convert, schema.get("x-kubernetes-list-type"), keys)
    limit = schema.get("maxItems", default_limit)
    return DeclaredType(types.list_of(items.type), convert, 2, limit, element=items)


def _convert_list(convert: Callable[[Any], Any], list_type: str | None, keys: tuple[str, ...], value: Any) -> list[Any]:
    elements = [convert(element) for element in value]
    if list_type == "set":
        return SetList(elements)
    return MapList(elements, keys) if list_type == "map" else elements


def _declare_object(schema: JsonSchema, name: str, structs: Structs) -> DeclaredType | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping) and additional:
        return _declare_map(schema, additional, name, structs)
    object_type, fields = Type("struct", name), DeclaredFields(schema, name, structs)
    structs[name] = fields
    convert = partial(_convert_object, fields, object_type)
    return DeclaredType(object_type, convert, fields.min_size(schema.get("required", ())), fields=fields)


def _convert_object(fields: DeclaredFields, object_type: Type, value: Any) -> ObjectValue:
    return ObjectValue(value, fields, object_type)


def _declare_map(schema: JsonSchema, additional: JsonSchema, name: str, structs: Structs) -> DeclaredType | None:
    values = declare_type(additional, f"{name}.@elem", structs)
    if values is None:
        return None
    limit = schema.get("maxProperties", (MAX_REQUEST_BYTES - 2) // (values.min_size + 6))
    map_type = types.map_of(types.STRING, values.type)
    return DeclaredType(map_type, partial(_convert_map, values.convert), 2, limit, element=values)


def _convert_map(convert: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    return {name: convert(member) for name, member in value.items()}


def _declare_string(schema: JsonSchema) -> DeclaredType:
    match schema.get("format"):
        case "byte":
            limit = schema.get("maxLength", MAX_REQUEST_BYTES - 2)
            return DeclaredType(types.BYTES, _convert_bytes, 2, limit)
        case "duration":
            return DeclaredType(types.DURATION, _convert_duration, 3, 32)
        case "date":
            return DeclaredType(types.TIMESTAMP, parse_date_or_timestamp, 12, 12)
        case "date-time":
            return DeclaredType(types.TIMESTAMP, parse_date_or_timestamp, 21, 32)
    if "maxLength" in schema:
        limit = _max_length(schema)
    elif schema.get("enum"):
        limit = max((len(value.encode()) for value in schema["enum"] if isinstance(value, str)), default=0)
    else:
        limit = MAX_REQUEST_BYTES - 2
    return DeclaredType(types.STRING, _identity, 2, limit)


def _max_length(schema: JsonSchema) -> int:
    """Return bytes: maxLength counts characters, which have up to four."""
    return max(0, int(schema["maxLength"])) * 4


def _convert_bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise EvaluationError(f"Invalid byte formatted string {value}: {error}") from None


def _convert_duration(value: str) -> Any:
    """Return a duration; schemas also allow days and weeks."""
    try:
        days = sum(int(count) * _DAYS[unit] for count, unit in _DAYS_OR_WEEKS.findall(value))
        rest = _DAYS_OR_WEEKS.sub("", value)
        return Duration((parse_duration(rest).nanoseconds if rest else 0) + days * 86400 * 10**9)
    except EvaluationError as error:
        raise EvaluationError(f"Invalid duration {value}: {error}") from None


_DAYS: Final = {"d": 1, "w": 7}
_DAYS_OR_WEEKS: Final = re.compile(r"(\d{1,9})([dw])")
