"""Compiles a structural schema to functions that set defaults and prune unknown fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pliant.embedded.schema.field_errors import PathSegment
from pliant.embedded.schema.metadata import with_object_metadata

Defaulter = Callable[[Any], None]
Pruner = Callable[[Any], list[list[PathSegment]] | None]
"""Prunes in place; returns the paths of unknown fields, with the innermost segment first."""

_ABSENT: Final = object()


def deep_copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: deep_copy(member) for name, member in value.items()}
    if type(value) is list:
        return [deep_copy(member) for member in value]
    return value


def compile_defaulter(schema: Mapping[str, Any]) -> Defaulter | None:
    """Return a function that sets missing values; None if the schema has no default."""
    if schema.get("items") is not None:
        return _list_defaulter(compile_defaulter(schema["items"]))
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping) and additional:
        return _map_defaulter(additional, compile_defaulter(additional))
    entries = [
        (name, child.get("default", _ABSENT), bool(child.get("nullable")), compile_defaulter(child))
        for name, child in schema.get("properties", {}).items()
    ]
    entries = [entry for entry in entries if entry[1] is not _ABSENT or entry[3] is not None]
    return _object_defaulter(entries) if entries else None


def _object_defaulter(entries: list[tuple[str, Any, bool, Defaulter | None]]) -> Defaulter:
    def fill(value: Any) -> None:
        if type(value) is not dict:
            return
        for name, default, nullable, inner in entries:
            member = value.get(name, _ABSENT)
            if default is not _ABSENT and (member is _ABSENT or (member is None and not nullable)):
                member = value[name] = deep_copy(default)
            if inner is not None and member is not _ABSENT:
                inner(member)

    return fill


def _list_defaulter(inner: Defaulter | None) -> Defaulter | None:
    if inner is None:
        return None

    def fill(value: Any) -> None:
        if type(value) is list:
            for item in value:
                inner(item)

    return fill


def _map_defaulter(additional: Mapping[str, Any], inner: Defaulter | None) -> Defaulter | None:
    default = additional.get("default", _ABSENT)
    replaces_null = default is not _ABSENT and not additional.get("nullable")
    if inner is None and not replaces_null:
        return None

    def fill(value: Any) -> None:
        if type(value) is not dict:
            return
        for name, member in value.items():
            if member is None and replaces_null:
                value[name] = deep_copy(default)
            if inner is not None:
                inner(value[name])

    return fill


def compile_pruner(
    schema: Mapping[str, Any], *, keep_nulls: bool = False, prunes_wrong_types: bool = False
) -> Pruner | None:
    """Return a function that removes unknown fields and nulls of unset fields; None if there is nothing to remove.

    With `prunes_wrong_types`, all fields of an object are unknown where the schema has no object, as in Kubernetes.
    """
    pruner = _compile_pruner(schema, keep_nulls=keep_nulls, prunes_wrong_types=prunes_wrong_types)
    if not prunes_wrong_types or schema.get("x-kubernetes-preserve-unknown-fields"):
        return pruner
    is_list = schema.get("items") is not None
    is_object = not is_list and (schema.get("type") == "object" or bool(schema.get("properties")))
    if is_object and isinstance(additional := schema.get("additionalProperties"), bool) and additional:
        return pruner
    expected = list if is_list else dict if is_object else type(None)

    def prune(value: Any) -> list[list[PathSegment]] | None:
        if type(value) is not expected:
            return _prune_everything(value)
        return pruner(value) if pruner is not None else None

    return prune


def _prune_everything(value: Any) -> list[list[PathSegment]] | None:
    pruned: list[list[PathSegment]] | None = None
    if type(value) is dict and value:
        pruned = [[name] for name in value]
        value.clear()
    elif type(value) is list:
        for index, item in enumerate(value):
            pruned = _merge_pruned_paths(pruned, _prune_everything(item), index)
    return pruned


def _compile_pruner(schema: Mapping[str, Any], *, keep_nulls: bool, prunes_wrong_types: bool) -> Pruner | None:
    options = {"keep_nulls": keep_nulls, "prunes_wrong_types": prunes_wrong_types}
    if schema.get("x-kubernetes-embedded-resource"):
        schema = with_object_metadata(schema)
    if schema.get("items") is not None:
        return _list_pruner(compile_pruner(schema["items"], **options))
    additional = schema.get("additionalProperties")
    properties = schema.get("properties", {})
    if schema.get("type") != "object" and not properties:
        return None
    if isinstance(additional, Mapping):
        # A null with a default stays: it becomes the default.
        keeps_null = keep_nulls or not additional or bool(additional.get("nullable")) or "default" in additional
        return _map_pruner(compile_pruner(additional, **options), keeps_null=keeps_null)
    known = {name: compile_pruner(child, **options) for name, child in properties.items()}
    nullable = {name for name, child in properties.items() if keep_nulls or child.get("nullable")}
    keeps_unknown = bool(additional or schema.get("x-kubernetes-preserve-unknown-fields"))
    return _object_pruner(known, nullable, keeps_unknown=keeps_unknown)


def _list_pruner(inner: Pruner | None) -> Pruner | None:
    if inner is None:
        return None

    def prune(value: Any) -> list[list[PathSegment]] | None:
        pruned: list[list[PathSegment]] | None = None
        if type(value) is list:
            for index, item in enumerate(value):
                pruned = _merge_pruned_paths(pruned, inner(item), index)
        return pruned

    return prune


def _map_pruner(inner: Pruner | None, *, keeps_null: bool) -> Pruner | None:
    if inner is None and keeps_null:
        return None

    def prune(value: Any) -> list[list[PathSegment]] | None:
        if type(value) is not dict:
            return None
        pruned: list[list[PathSegment]] | None = None
        if not keeps_null and None in value.values():
            for name in [name for name, member in value.items() if member is None]:
                del value[name]
        if inner is not None:
            for name, member in value.items():
                pruned = _merge_pruned_paths(pruned, inner(member), name)
        return pruned

    return prune


def _object_pruner(known: Mapping[str, Pruner | None], nullable: set[str], *, keeps_unknown: bool) -> Pruner:
    names = frozenset(known)
    pruner_of = {name: inner for name, inner in known.items() if inner is not None}.get

    def prune(value: Any) -> list[list[PathSegment]] | None:
        if type(value) is not dict:
            return None
        pruned: list[list[PathSegment]] | None = None
        if not keeps_unknown and not value.keys() <= names:
            for name in [name for name in value if name not in names]:
                del value[name]
                pruned = [*(pruned or ()), [name]]
        if None in value.values():
            for name in [name for name, member in value.items() if member is None and name in names]:
                if name not in nullable:
                    del value[name]
        for name, member in value.items():
            inner = pruner_of(name)
            if inner is not None:
                pruned = _merge_pruned_paths(pruned, inner(member), name)
        return pruned

    return prune


def _merge_pruned_paths(
    pruned: list[list[PathSegment]] | None, found: list[list[PathSegment]] | None, segment: PathSegment
) -> list[list[PathSegment]] | None:
    if found is None:
        return pruned
    for segments in found:
        segments.append(segment)
    return found if pruned is None else pruned + found
