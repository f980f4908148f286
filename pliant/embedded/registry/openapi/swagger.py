"""OpenAPI v2: one document of all served kinds, converted from the definitions and paths of version 3."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.registry.openapi.definitions import COMPONENTS, collect_definitions
from pliant.embedded.registry.openapi.paths import path_items, subresource_definitions
from pliant.kube.transport.base import JSON_CONTENT_TYPE

_DEFINITIONS: Final = "#/definitions/"
_METHODS: Final = ("get", "put", "post", "patch", "delete")
_DROPPED_KEYWORDS: Final = ("allOf", "anyOf", "oneOf", "not", "default", "nullable")
"""Keywords that version 2 does not have, or that kubectl does not understand in it."""


def swagger_document(kinds: Iterable[Kind]) -> dict[str, Any]:
    """Return the response to /openapi/v2 for these kinds."""
    kinds = sorted(kinds, key=lambda kind: (kind.group, kind.version, kind.plural))
    referenced = [name for kind in kinds for name in subresource_definitions(kind)]
    definitions = collect_definitions(kinds, referenced)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": {path: _path_item(item) for kind in kinds for path, item in path_items(kind).items()},
        "definitions": {name: _definition(schema) for name, schema in definitions.items()},
    }


def _definition(schema: dict[str, Any] | msgspec.Raw) -> dict[str, Any]:
    """Return the definition of a kind; one that accepts any field lists none, or kubectl would refuse the others."""
    if isinstance(schema, msgspec.Raw):
        schema = msgspec.json.decode(schema, type=dict[str, Any])
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        extensions = {keyword: value for keyword, value in schema.items() if keyword.startswith("x-")}
        return {"type": "object", **extensions}
    return to_swagger_schema(schema)


def to_swagger_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of version 3 in version 2, as Kubernetes converts it."""
    reference = _reference(schema)
    if reference is not None:
        extensions = {keyword: value for keyword, value in schema.items() if keyword.startswith("x-")}
        return {"$ref": reference.replace(COMPONENTS, _DEFINITIONS), **extensions}
    if "oneOf" in schema and "type" not in schema and not schema.get("x-kubernetes-int-or-string"):
        # A published quantity or int-or-string.
        return {**{keyword: schema[keyword] for keyword in ("format",) if keyword in schema}, "type": "string"}
    dropped = {*_DROPPED_KEYWORDS, *_keywords_dropped_from(schema)}
    converted: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword not in dropped:
            converted[keyword] = _keyword(keyword, value)
    if required := [name for name in converted.pop("required", ()) if not _is_nullable_property(schema, name)]:
        converted["required"] = required
    return converted


def _reference(schema: dict[str, Any]) -> str | None:
    """Return the definition to which a schema refers, directly or as its only `allOf`."""
    [*parts] = schema.get("allOf", ())
    found = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else None)
    return str(found) if found else None


def _keywords_dropped_from(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the keywords with which kubectl would refuse a value that the server accepts."""
    accepts_anything = schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("nullable"):
        yield from ("type", "items", "properties")
    if accepts_anything:
        yield from ("items", "properties")
    if accepts_anything and schema.get("type") == "object":
        yield "type"
    if schema.get("type") == "array" and (accepts_anything or "items" not in schema):
        yield "type"


def _is_nullable_property(schema: dict[str, Any], name: str) -> bool:
    return bool(schema.get("properties", {}).get(name, {}).get("nullable"))


def _keyword(keyword: str, value: Any) -> Any:
    if keyword == "properties":
        return {name: to_swagger_schema(child) for name, child in value.items()}
    if keyword in ("items", "additionalProperties") and isinstance(value, dict):
        return to_swagger_schema(value)
    return value


def _path_item(item: dict[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {method: _operation(method, item[method]) for method in _METHODS if method in item}
    if parameters := item.get("parameters"):
        converted["parameters"] = [_parameter(parameter) for parameter in parameters]
    return converted


def _operation(method: str, operation: dict[str, Any]) -> dict[str, Any]:
    media = operation.get("requestBody", {}).get("content", {})
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    if media:
        schema = to_swagger_schema(next(iter(media.values()))["schema"])
        parameters.insert(0, {"name": "body", "in": "body", "required": method != "delete", "schema": schema})
    extensions = {keyword: value for keyword, value in operation.items() if keyword.startswith("x-")}
    return {
        "consumes": list(media) if method == "patch" else ["*/*"],
        "produces": [JSON_CONTENT_TYPE],
        "schemes": ["https"],
        **({"parameters": parameters} if parameters else {}),
        "responses": {code: _response(response) for code, response in operation["responses"].items()},
        **extensions,
    }


def _response(response: dict[str, Any]) -> dict[str, Any]:
    media = response["content"].get(JSON_CONTENT_TYPE)
    schema = {"schema": to_swagger_schema(media["schema"])} if media else {}
    return {"description": response["description"], **schema}


def _parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    fields = {keyword: value for keyword, value in parameter.items() if keyword != "schema"}
    return {**fields, **parameter["schema"]}
