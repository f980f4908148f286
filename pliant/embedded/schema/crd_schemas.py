"""Validation of the schema of a CRD."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pliant.embedded.schema.default_values import find_default_errors
from pliant.embedded.schema.field_errors import FieldError, FieldErrorType
from pliant.embedded.schema.rules.pending import has_rules, must_check_rules
from pliant.embedded.schema.schema_keywords import find_keyword_errors
from pliant.embedded.schema.structural import find_structural_errors, find_unsupported_keyword

_BEFORE_TYPE: Final = ("id", "$schema", "$ref")
_REFUSED_WITH_STATUS: Final = (
    *("default", "enum", "maxProperties", "minProperties", "allOf", "oneOf", "anyOf", "not", "additionalProperties"),
    *("patternProperties", "dependencies", "additionalItems", "definitions", "x-kubernetes-embedded-resource"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"),
    "nullable",
)
"""Keywords that the root must not have if there is a status: it has a validation of its own."""


def find_schema_errors(
    schema: Mapping[str, Any], path: str, *, has_status: bool, is_unchanged: bool
) -> list[FieldError]:
    """Return the errors of a schema; the expressions of one that is unchanged are valid."""
    errors = list(_find_root_errors(schema, path, has_status=has_status))
    unsupported = find_unsupported_keyword(schema)
    structural = [] if unsupported else find_structural_errors(schema, path)
    structural = structural or ([] if unsupported else list(find_default_errors(schema, path)))
    keywords = list(find_keyword_errors(schema, path))
    rules: list[FieldError] = []
    if not is_unchanged and (must_check_rules(schema) if not keywords and not structural else has_rules(schema)):
        # Importing CEL takes 12 ms; most clusters never see a CRD with rules that must be checked.
        from pliant.embedded.schema.rules.crd_rules import find_definition_errors, find_rule_errors

        keywords += find_definition_errors(schema, path, has_paths=not unsupported)
        if not unsupported and not structural:
            rules = find_rule_errors(schema, path, [error.field for error in keywords])
    errors += [*structural, *keywords, *rules]
    if unsupported and not errors:
        errors.append(FieldError.of(path, FieldErrorType.INVALID, "", f"'{unsupported}' is not supported"))
    return errors


def _find_root_errors(schema: Mapping[str, Any], path: str, *, has_status: bool) -> Iterator[FieldError]:
    json_type, detail = schema.get("type") or "", "is not allowed at the root if the status subresource is enabled"
    if has_status and any(schema.get(keyword) for keyword in _BEFORE_TYPE):
        yield FieldError.of(path, FieldErrorType.INVALID, "", detail)
    elif has_status and json_type not in ("", "object"):
        yield FieldError.of(f"{path}.type", FieldErrorType.INVALID, json_type, detail)
    elif has_status and any(
        schema.get(keyword) is not None and (schema[keyword] is not False or keyword == "additionalProperties")
        for keyword in _REFUSED_WITH_STATUS
    ):
        yield FieldError.of(path, FieldErrorType.INVALID, "", detail)
    if schema.get("nullable"):
        yield FieldError.of(f"{path}.nullable", FieldErrorType.FORBIDDEN, None, "nullable cannot be true at the root")


def find_shape_errors(schema: Any, path: str) -> Iterator[FieldError]:
    """Yield the errors of a schema that may have any values, except those of its rules."""
    if wrong := list(_find_misplaced_values(schema, path)):
        yield from wrong
        return
    yield from find_keyword_errors(schema, path)
    structural = find_structural_errors(schema, path)
    yield from structural or find_default_errors(schema, path)


def _find_misplaced_values(schema: Any, path: str) -> Iterator[FieldError]:
    """Yield an error for each value that is no schema where a schema must be."""
    if not isinstance(schema, Mapping):
        yield FieldError.of(path, FieldErrorType.INVALID, schema, "must be a schema, that is, an object")
        return
    properties = schema.get("properties") or {}
    if not isinstance(properties, Mapping):
        yield FieldError.of(f"{path}.properties", FieldErrorType.INVALID, properties, "must be an object of schemas")
        return
    for name, child in properties.items():
        yield from _find_misplaced_values(child, f"{path}.properties[{name}]")
    for keyword in ("items", "not"):
        if schema.get(keyword) is not None:
            yield from _find_misplaced_values(schema[keyword], f"{path}.{keyword}")
    if schema.get("additionalProperties") not in (None, True, False):
        yield from _find_misplaced_values(schema["additionalProperties"], f"{path}.additionalProperties")
    for keyword in ("allOf", "anyOf", "oneOf"):
        for index, part in enumerate(schema.get(keyword) or ()):
            yield from _find_misplaced_values(part, f"{path}.{keyword}[{index}]")
