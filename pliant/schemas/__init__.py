"""Structural schemas of the built-in Kubernetes kinds, without descriptions.

`scripts/update-schemas` generates the data file from the OpenAPI documents of Kubernetes. The file openapi.json has the
definitions as Kubernetes publishes them, for clients; `scripts/update-openapi` generates it.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any, cast

import msgspec


def load_kubernetes_schema(name: str) -> dict[str, Any]:
    """Return a copy of a structural schema without references, suitable for a CRD.

    The name is the last part of the Kubernetes name: `Pod`, `PodTemplateSpec`, `ObjectMeta`. Raises KeyError if the
    data file does not contain it.
    """
    return cast("dict[str, Any]", _resolve_references(_load_definitions()[name]))


def kubernetes_schema_names() -> tuple[str, ...]:
    return tuple(_load_definitions())


@cache
def _load_definitions() -> dict[str, Any]:
    text = pkgutil.get_data(__name__, "kubernetes.json") or b""
    return cast("dict[str, Any]", msgspec.json.decode(text)["definitions"])


def _resolve_references(schema: Any) -> Any:
    """Return a deep copy with every `$ref` replaced by its definition; the data has no cycles."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _resolve_references(_load_definitions()[schema["$ref"]])
        return {key: _resolve_references(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_resolve_references(value) for value in schema]
    return schema
