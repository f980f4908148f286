"""The objects of other kinds within custom objects: where they are, and the validation of their type and metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import FieldError, FieldErrorBuilder, FieldErrorType, ValidationResult
from pliant.embedded.schema.metadata import DNS_1035_LABEL_RULE, PATH_SEGMENT_RULE, name_problem, validate_metadata

EACH: Final = "*"
"""A segment of a path: all items of a list, or all members of a map."""
Path = tuple[str, ...]
_STRUCTURE_KEYWORDS = ("x-kubernetes-embedded-resource", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")


class _BuiltError(FieldErrorBuilder):
    """An error that has its message already."""

    __slots__ = ("error",)

    def __init__(self, error: FieldError) -> None:
        super().__init__(FieldErrorType.INVALID)
        self.error = error
        self.prepend(error.field)

    def build(self) -> FieldError:
        return FieldError(super().build().field, self.error.reason, self.error.message)


def find_embedded_paths(schema: Mapping[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all embedded resources of a schema, the outer ones first."""
    if schema.get("x-kubernetes-embedded-resource"):
        yield path
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield from find_embedded_paths(schema[keyword], (*path, EACH))
    for name, child in (schema.get("properties") or {}).items():
        yield from find_embedded_paths(child, (*path, name))


def declare_embedded_metadata(schema: Mapping[str, Any], object_meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose embedded resources declare their type and metadata."""
    result = dict(schema)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            result[keyword] = declare_embedded_metadata(schema[keyword], object_meta)
    properties = schema.get("properties") or {}
    if properties:
        result["properties"] = {
            name: declare_embedded_metadata(child, object_meta) for name, child in properties.items()
        }
    if schema.get("x-kubernetes-embedded-resource"):
        of_type = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        result["properties"] = {**result.get("properties", {}), **of_type, "metadata": object_meta}
    return result


def without_value_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that describes only embedded resources, and lists that are sets or maps."""
    result = {name: schema[name] for name in _STRUCTURE_KEYWORDS if name in schema}
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            result[keyword] = without_value_keywords(schema[keyword])
    if properties := schema.get("properties"):
        result["properties"] = {name: without_value_keywords(child) for name, child in properties.items()}
    return result


def find_values(value: Any, path: Path) -> Iterator[Any]:
    """Yield the values at a path."""
    if not path:
        yield value
    elif path[0] == EACH:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from find_values(each, path[1:])
    elif isinstance(value, dict) and path[0] in value:
        yield from find_values(value[path[0]], path[1:])


def validate_embedded_resource(value: Any) -> ValidationResult:
    """Return the errors of type and metadata; the types of their fields are right."""
    return [_BuiltError(error) for error in _find_errors(value)] or None


def _find_errors(value: Mapping[str, Any]) -> Iterator[FieldError]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if api_version == "":
        yield _invalid("apiVersion", api_version, "must not be empty")
    elif isinstance(api_version, str) and api_version.count("/") > 1:
        yield _invalid("apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    if kind == "":
        yield _invalid("kind", kind, "must not be empty")
    elif isinstance(kind, str) and (problem := name_problem(kind.lower(), DNS_1035_LABEL_RULE)):
        yield _invalid("kind", kind, f"may have mixed case, but should otherwise match: {problem}")
    if isinstance(value.get("metadata"), dict):
        yield from validate_metadata(value["metadata"], PATH_SEGMENT_RULE)


def _invalid(path: str, value: str, detail: str) -> FieldError:
    return FieldError.of(path, FieldErrorType.INVALID, value, detail)
