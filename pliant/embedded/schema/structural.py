"""Finds where the schema of a CRD is not structural, as Kubernetes does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import FieldError, forbidden_field, invalid_field, required_field
from pliant.embedded.schema.formats import compile_go_pattern
from pliant.errors import InvalidSpec

JsonSchema = Mapping[str, Any]
_COMBINATORS: Final = ("allOf", "anyOf", "oneOf")
_FORBIDDEN_IN_PARTS: Final = (
    *("type", "default", "title", "description", "nullable", "x-kubernetes-preserve-unknown-fields"),
    *("x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
"""Keywords that a schema inside allOf, anyOf, oneOf or not must not have."""
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_FIELD, _ITEM, _ROOT = "specified object fields", "specified array items", "the root"
_UNSUPPORTED_KEYWORDS: Final = (
    *("id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"),
)


def find_structural_errors(schema: JsonSchema, path: str) -> list[FieldError]:
    """Return the errors of a schema whose keywords have values of the right types."""
    return [*_find_node_errors(schema, path, _ROOT), *_find_incomplete_parts(schema, schema, path)]


def find_unsupported_keyword(schema: Any) -> str:
    """Return a keyword, here or below, without which the schema could be structural; empty if there is none."""
    if not isinstance(schema, Mapping):
        return "items" if isinstance(schema, list) else ""
    for keyword in _UNSUPPORTED_KEYWORDS:
        if schema.get(keyword) not in (None, "", {}, []) or (keyword == "additionalItems" and keyword in schema):
            return keyword
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        return "x-kubernetes-preserve-unknown-fields"
    parts = [schema.get("not"), schema.get("items"), *(schema.get("properties") or {}).values()]
    if isinstance(schema.get("additionalProperties"), Mapping):
        parts.append(schema["additionalProperties"])
    parts += [part for combinator in _COMBINATORS for part in schema.get(combinator) or ()]
    return next((found for part in parts if (found := find_unsupported_keyword(part))), "")


def _find_node_errors(schema: JsonSchema, path: str, level: str) -> Iterator[FieldError]:
    items, additional = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        yield required_field(f"{path}.items", "must be specified")
    if items is not None:
        yield from _find_node_errors(items, f"{path}.items", _ITEM)
    properties = schema.get("properties") or {}
    for name, child in properties.items():
        yield from _find_node_errors(child, f"{path}.properties[{name}]", _FIELD)
    if additional is not None and level == _ROOT:
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(additional, Mapping):
        yield from _find_node_errors(additional, f"{path}.additionalProperties", _FIELD)
    if schema.get("x-kubernetes-int-or-string"):
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(keyword):
                yield invalid_field(f"{path}.{keyword}", True, "must be false if x-kubernetes-int-or-string is true")
    first: JsonSchema = (schema.get("allOf") or ({},))[0]
    yield from _find_part_errors(
        schema,
        path,
        skips_any_of=schema.get("anyOf") == _INT_OR_STRING,
        skips_first=first.get("anyOf") == _INT_OR_STRING,
    )
    yield from _find_type_errors(schema, path, level)
    if level == _ROOT or schema.get("x-kubernetes-embedded-resource"):
        yield from _find_type_meta_errors(properties, path)
    if level == _ROOT and "metadata" in properties and not _is_allowed_metadata(properties["metadata"]):
        detail = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(f"{path}.properties[metadata]", detail)


def _find_type_errors(schema: JsonSchema, path: str, level: str) -> Iterator[FieldError]:
    json_type, is_embedded = schema.get("type") or "", schema.get("x-kubernetes-embedded-resource")
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields")
    if is_embedded and json_type != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid_field(f"{path}.type", json_type, detail) if json_type else required_field(f"{path}.type", detail)
    elif not json_type and not schema.get("x-kubernetes-int-or-string") and not keeps_unknown:
        yield required_field(f"{path}.type", f"must not be empty {'at' if level == _ROOT else 'for'} {level}")
    if is_embedded and schema.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden_field(f"{path}.additionalProperties", detail)
    if level == _ROOT and json_type not in ("", "object"):
        yield invalid_field(f"{path}.type", json_type, "must be object at the root")
    if is_embedded and not keeps_unknown and not schema.get("properties"):
        condition = "x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required_field(f"{path}.properties", f"must not be empty if {condition}")


def _find_type_meta_errors(properties: JsonSchema, path: str) -> Iterator[FieldError]:
    for name, json_type in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if name in properties and (found := properties[name].get("type") or "") != json_type:
            yield invalid_field(f"{path}.properties[{name}].type", found, f"must be {json_type}")


def _is_allowed_metadata(schema: JsonSchema) -> bool:
    """Whether the schema of the metadata of the root restricts nothing but names."""
    if any(value for keyword, value in schema.items() if keyword not in ("type", "default", "properties")):
        return False
    return not schema.get("properties") or schema["properties"].keys() <= {"name", "generateName"}


def _find_part_errors(
    schema: JsonSchema, path: str, *, skips_any_of: bool = False, skips_first: bool = False
) -> Iterator[FieldError]:
    """Yield the errors of the pattern, and of allOf, anyOf, oneOf and not."""
    for combinator in _COMBINATORS:
        for index, part in enumerate(schema.get(combinator) or ()):
            if combinator != "anyOf" or not skips_any_of:
                is_skipped = skips_first and combinator == "allOf" and index == 0
                yield from _find_nested_errors(part, f"{path}.{combinator}[{index}]", skips_any_of=is_skipped)
    if schema.get("not") is not None:
        yield from _find_nested_errors(schema["not"], f"{path}.not")
    if schema.get("pattern"):
        try:
            compile_go_pattern(schema["pattern"])
        except InvalidSpec as error:
            yield invalid_field(f"{path}.pattern", schema["pattern"], error.problem)


def _find_nested_errors(schema: JsonSchema, path: str, *, skips_any_of: bool = False) -> Iterator[FieldError]:
    yield from _find_part_errors(schema, path, skips_any_of=skips_any_of)
    if schema.get("items") is not None:
        yield from _find_nested_errors(schema["items"], f"{path}.items")
    for name, child in (schema.get("properties") or {}).items():
        yield from _find_nested_errors(child, f"{path}.properties[{name}]")
    if isinstance(schema.get("additionalProperties"), Mapping) or schema.get("additionalProperties"):
        yield forbidden_field(f"{path}.additionalProperties", "must be undefined to be structural")
    for keyword in _FORBIDDEN_IN_PARTS:
        if schema.get(keyword) or (keyword == "default" and schema.get(keyword) is not None):
            yield forbidden_field(f"{path}.{keyword}", "must be empty to be structural")
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden_field(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _find_incomplete_parts(part: JsonSchema, schema: JsonSchema | None, path: str) -> Iterator[FieldError]:
    """Yield an error for each field that a part of a combinator describes, but not the schema itself."""
    parts = [each for combinator in _COMBINATORS for each in part.get(combinator) or ()]
    for each in (*parts, *([part["not"]] if part.get("not") is not None else ())):
        yield from _find_incomplete_fields(each, schema, path)


def _find_incomplete_fields(part: JsonSchema, schema: JsonSchema | None, path: str) -> Iterator[FieldError]:
    if schema is None:
        yield required_field(path, "because it is defined in a part of the schema")
        return
    yield from _find_incomplete_parts(part, schema, path)
    if part.get("items") is not None:
        yield from _find_incomplete_fields(part["items"], schema.get("items"), f"{path}.items")
    properties = schema.get("properties") or {}
    for name, child in (part.get("properties") or {}).items():
        yield from _find_incomplete_fields(child, properties.get(name), f"{path}.properties[{name}]")
