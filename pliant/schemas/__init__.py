"""The structure of Kubernetes' own kinds, as facts without words: fields, types, defaults, list semantics.

The data file is written by `scripts/update-schemas` from the OpenAPI documents Kubernetes publishes.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import Any, cast

import msgspec


def load_definition(name: str) -> dict[str, Any]:
    """A self-contained structural schema, fit for a CRD: `definition("PodTemplateSpec")`.

    Names are the last part of Kubernetes' own (`Pod`, `ObjectMeta`, `CustomResourceDefinition`). The caller owns
    the answer and may change it. Raises KeyError for a name that is not kept.
    """
    return cast("dict[str, Any]", _resolve_references(_load_definitions()[name]))


def definition_names() -> tuple[str, ...]:
    """Every definition that is kept."""
    return tuple(_load_definitions())


@cache
def _load_definitions() -> dict[str, Any]:
    text = pkgutil.get_data(__name__, "kubernetes.json") or b""
    return cast("dict[str, Any]", msgspec.json.decode(text)["definitions"])


def _resolve_references(schema: Any) -> Any:
    """A deep copy in which every reference is replaced by what it names; the data has no cycles."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _resolve_references(_load_definitions()[schema["$ref"]])
        return {key: _resolve_references(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_resolve_references(value) for value in schema]
    return schema
