"""The schemas by which server-side apply merges the objects of each kind."""

from __future__ import annotations

from functools import cache
from typing import Any

from pliant.embedded.apiserver.patch.field_sets import MergeSchema
from pliant.embedded.registry.conversions import EVENTS_CONVERSION, to_served_schema
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema.embedded_resources import declare_embedded_metadata
from pliant.schemas import load_kubernetes_schema


def merge_schema(kind: Kind) -> MergeSchema:
    """Return the schema by which applied configurations of a kind are merged."""
    if kind.conversion is EVENTS_CONVERSION:
        return to_served_schema(_builtin_schema(kind.kind), EVENTS_CONVERSION)
    if kind.conversion is not None:
        return {}
    if not kind.is_custom and (published := _builtin_schema(kind.kind)):
        return published
    schema = kind.schema.openapi if kind.schema is not None else {}
    if kind.schema is not None and kind.schema.embedded_paths:
        schema = declare_embedded_metadata(schema, _builtin_schema("ObjectMeta"))
    return {**schema, "properties": {**(schema.get("properties") or {}), "metadata": _builtin_schema("ObjectMeta")}}


@cache
def _builtin_schema(kind_name: str) -> MergeSchema:
    # The published schema: the schema for validation permits duplicates in some lists that are merged by key.
    try:
        schema = load_kubernetes_schema(kind_name)
    except KeyError:
        return {}
    _add_list_keys(schema, "imagePullSecrets")
    _add_key_defaults(schema)
    _add_list_keys(schema, "secrets")  # in Kubernetes, the only list with keys that have no default
    if kind_name == "ControllerRevision":
        schema["properties"]["data"] = {"x-kubernetes-map-type": "atomic"}  # any JSON value
    return schema


def _add_list_keys(schema: Any, list_name: str) -> None:
    """Add the keys of a list that the schema for validation does not have, because its items may lack the key."""
    for name, inner in (schema.get("properties") or {}).items():
        if name == list_name and "x-kubernetes-list-type" not in inner:
            inner |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
        _add_list_keys(inner, list_name)


def _add_key_defaults(schema: Any) -> None:
    """Let texts that are keys of list items be empty by default, but not those of references to any object."""
    properties = {name: inner for name, inner in (schema.get("properties") or {}).items() if name != "secrets"}
    for inner in (*properties.values(), schema.get("additionalProperties"), schema.get("items")):
        if isinstance(inner, dict):
            _add_key_defaults(inner)
    items = schema.get("items") or {}
    for key in schema.get("x-kubernetes-list-map-keys") or ():
        field = (items.get("properties") or {}).get(key, {})
        if field.get("type") == "string" and key != "protocol":
            field.setdefault("default", "")
