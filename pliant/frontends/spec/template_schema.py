"""Check the types of all fields of a pod template, which some CRDs leave to the operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.spec.decoding import abbreviate_json
from pliant.frontends.spec.quantities import normalize_quantity
from pliant.schemas import load_kubernetes_schema

Schema = Mapping[str, Any]


def check_template_types(template: Mapping[str, Any], path: str) -> None:
    """Raise InvalidSpec for the first field that no API server accepts in a pod. Unknown fields are ignored."""
    for error in _type_errors(_template_schema(), template, path):
        raise error


@cache
def _template_schema() -> Schema:
    return load_kubernetes_schema("PodTemplateSpec")


def _type_errors(schema: Schema, value: Any, path: str) -> Iterator[InvalidSpec]:
    if value is None:  # as in Go, null counts as absent
        return
    match schema.get("type"):
        case "object":
            if not isinstance(value, Mapping):
                yield InvalidSpec(path, f"must be a mapping, got {abbreviate_json(value)}")
            elif "additionalProperties" in schema:
                for key, item in value.items():
                    yield from _type_errors(schema["additionalProperties"], item, f"{path}.{key}")
            else:
                yield from _field_errors(schema, value, path)
        case "array":
            if not isinstance(value, list):
                yield InvalidSpec(path, f"must be a list, got {abbreviate_json(value)}{_list_hint(value, path)}")
                return
            for index, item in enumerate(value):
                yield from _type_errors(schema["items"], item, f"{path}[{index}]")
        case _:
            if (problem := _scalar_problem(schema, value)) is not None:
                yield InvalidSpec(path, f"{problem}, got {abbreviate_json(value)}{_string_hint(schema, value)}")


def _field_errors(schema: Schema, value: Mapping[str, Any], path: str) -> Iterator[InvalidSpec]:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if value.get(name) is None:
            yield InvalidSpec(f"{path}.{name}", "is required")
    for name, item in value.items():
        if name in properties:
            yield from _type_errors(properties[name], item, f"{path}.{name}")


def _scalar_problem(schema: Schema, value: Any) -> str | None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    match schema.get("type"):
        case "string":
            return None if isinstance(value, str) else "must be a string"
        case "boolean":
            return None if isinstance(value, bool) else "must be true or false"
        case "integer":
            return None if is_integer or (isinstance(value, float) and value.is_integer()) else "must be an integer"
    if schema.get("x-kubernetes-int-or-string"):
        return None if is_integer or isinstance(value, str) else "must be an integer or a string"
    if "pattern" in schema:
        return None if normalize_quantity(value) is not None else "must be a quantity such as 500m or 4Gi"
    return None


def _list_hint(value: Any, path: str) -> str:
    """Return the list to write instead of a string; a shell splits a command into words."""
    if not isinstance(value, str):
        return ""
    name = path.rpartition(".")[2]
    words = ["sh", "-c", value] if name == "command" else value.split()
    return f"; write {abbreviate_json(words)}" if name in ("command", "args") else ""


def _string_hint(schema: Schema, value: Any) -> str:
    is_scalar = isinstance(value, bool | int | float)
    return f'; write "{abbreviate_json(value)}"' if schema.get("type") == "string" and is_scalar else ""
