"""How strategic merge patches merge each field of built-in kinds, from the definitions that Kubernetes publishes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from pliant.embedded.registry.openapi.definitions import COMPONENTS, PublishedDefinitions, builtin_definition_name


class FieldStrategy(NamedTuple):
    """How a field is merged; by default, objects are merged and lists are replaced."""

    definition: str = ""
    """The definition of the object, or of the items of the list; empty if the field has none."""
    is_merged: bool = False
    """Whether the items of the list are merged."""
    is_replaced: bool = False
    """Whether the object is replaced as a whole."""
    key: str = ""
    """The field that identifies an item; empty for lists of values."""


_DEFAULT: Final = FieldStrategy()
_REPLACED_OBJECTS: Final = {("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector")}
"""Objects with a strategy in Go that OpenAPI v3 cannot express, because they are references."""


def root_definition(obj: Mapping[str, Any]) -> str:
    """Return the name of the definition of an object; the definition may not exist."""
    group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
    return builtin_definition_name(group, version, str(obj.get("kind", "")))


def find_strategy(definition: str, field: str) -> FieldStrategy:
    """Return the strategy of a field of a definition; the default one if the field is not known."""
    return _strategies(definition).get(field, _DEFAULT) if definition else _DEFAULT


@cache
def _strategies(definition: str) -> dict[str, FieldStrategy]:
    published = _published()
    if definition not in published:
        return {}
    schema = msgspec.json.decode(published[definition], type=dict[str, Any])
    return {
        name: FieldStrategy(
            definition=_reference(child) or _reference(child.get("items", {})),
            is_merged="merge" in child.get("x-kubernetes-patch-strategy", "").split(","),
            is_replaced=(definition, name) in _REPLACED_OBJECTS,
            key=child.get("x-kubernetes-patch-merge-key", ""),
        )
        for name, child in schema.get("properties", {}).items()
    }


@cache
def _published() -> PublishedDefinitions:
    return PublishedDefinitions()


def _reference(schema: Mapping[str, Any]) -> str:
    """Return the definition to which a schema refers; empty if it refers to none."""
    [part, *_] = schema.get("allOf") or [schema]
    return str(part.get("$ref", "")).removeprefix(COMPONENTS)
