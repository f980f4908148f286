"""Who manages which field of an object: read from `managedFields`, followed through writes, and kept there.

Objects get `managedFields` with their first server-side apply; what was there before then belongs to
`before-first-apply`. Writes of other kinds are followed from then on, so that plain objects cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pliant.embedded.apiserver.patch import field_sets
from pliant.embedded.apiserver.patch.field_sets import FieldPath, FieldRemoval, MergeSchema
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import Conflict
from pliant.schemas import load_definition

APPLY_OPERATION, UPDATE_OPERATION = "Apply", "Update"
_SERVER_MANAGED_METADATA = frozenset(
    {"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}
)
"""Members of metadata that the server alone writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldManager:
    """Somebody who writes, and how."""

    name: str
    operation: str
    subresource: str = ""
    api_version: str = ""
    """The apiVersion in which it writes."""

    @property
    def identity(self) -> tuple[str, str, str]:
        """What tells managers apart."""
        return self.name, self.operation, self.subresource


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedFieldsEntry:
    """The fields of one manager, and when they last changed."""

    manager: FieldManager
    time: str
    paths: frozenset[FieldPath]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteScope:
    """What a write can reach: the shape of the kind, and the part that the endpoint lets through."""

    schema: MergeSchema
    is_status: bool = False
    has_status: bool = False
    keeps_empty_fields: bool = True
    """Whether what is empty stays; built-in kinds leave it out, and its owner owns it all the same."""

    @classmethod
    def for_endpoint(cls, kind: Kind, subresource: str) -> WriteScope:
        """The scope of an endpoint."""
        return cls(
            schema=_merge_schema(kind),
            is_status=subresource == "status",
            has_status=kind.has_status,
            keeps_empty_fields=kind.is_custom,
        )

    def manageable_fields(self, obj: Object) -> dict[FieldPath, Any]:
        """Every field within reach that anybody may manage."""
        metadata = {
            name: value for name, value in obj.get("metadata", {}).items() if name not in _SERVER_MANAGED_METADATA
        }
        rest = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}
        if self.is_status:
            rest = {name: value for name, value in rest.items() if name == "status"}
        elif self.has_status:
            rest.pop("status", None)
        reached = {**({"metadata": metadata} if metadata and not self.is_status else {}), **rest}
        return dict(field_sets.iter_fields(reached, self.schema)) if reached else {}


def apply_to_live(
    live: Object, desired: Object, scope: WriteScope, entry: ManagedFieldsEntry, *, force: bool
) -> tuple[Object, list[ManagedFieldsEntry]]:
    """A live object with an applied one merged in, and who manages what then; `Conflict` unless forced."""
    entries = _decode_entries(live, scope)
    before = next((each for each in entries if each.manager.identity == entry.manager.identity), None)
    others = [each for each in entries if each is not before]
    result = field_sets.merge_configuration(live, desired, scope.schema)
    changed = _changed_paths(scope.manageable_fields(live), scope.manageable_fields(result))
    lost = [(each, sorted(each.paths & changed, key=_path_sort_key)) for each in others if each.paths & changed]
    if lost and not force:
        raise _conflict_error(sorted(lost, key=lambda each: _describe_manager(each[0])))
    others = [replace(each, paths=each.paths - changed) for each in others]
    stored = result
    if before is not None:
        removal = _plan_removal(before.paths - entry.paths, others)
        result = removal.apply(result, scope.schema)
        stored = result if scope.keeps_empty_fields else replace(removal, owned=set()).apply(stored, scope.schema)
    if before is not None and before.paths == entry.paths and stored == live:
        return stored, entries
    return stored, _without_removed_fields(
        [*others, entry], scope.manageable_fields(live), scope.manageable_fields(result)
    )


def track_update(old: Object, new: Object, scope: WriteScope, entry: ManagedFieldsEntry) -> list[ManagedFieldsEntry]:
    """Who manages what after a write that is no apply; the writer owns what it changed."""
    entries = _decode_entries(old, scope)
    was, becomes = scope.manageable_fields(old), scope.manageable_fields(new)
    changed = _changed_paths(was, becomes)
    if not changed and not (was.keys() - becomes.keys()):
        return entries
    others = [each for each in entries if each.manager.identity != entry.manager.identity]
    own = frozenset(changed).union(*(each.paths for each in entries if each not in others))
    others = [replace(each, paths=each.paths - changed) for each in others]
    return _without_removed_fields([*others, replace(entry, paths=own)], was, becomes)


def encode_managed_fields(entries: list[ManagedFieldsEntry]) -> list[dict[str, Any]]:
    """Entries as `managedFields` has them."""
    return [
        {
            "manager": each.manager.name,
            "operation": each.manager.operation,
            "apiVersion": each.manager.api_version,
            "time": each.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_sets.encode_fields_v1(each.paths),
            **({"subresource": each.manager.subresource} if each.manager.subresource else {}),
        }
        for each in entries
    ]


def _decode_entries(obj: Object, scope: WriteScope) -> list[ManagedFieldsEntry]:
    kept = obj["metadata"].get("managedFields")
    if not kept:
        first = FieldManager(name="before-first-apply", operation=UPDATE_OPERATION, api_version=obj["apiVersion"])
        time = obj["metadata"].get("creationTimestamp", "")
        return [ManagedFieldsEntry(manager=first, time=time, paths=frozenset(scope.manageable_fields(obj)))]
    return [_decode_entry(each) for each in kept]


def _decode_entry(raw: Mapping[str, Any]) -> ManagedFieldsEntry:
    manager = FieldManager(
        name=raw["manager"],
        operation=raw["operation"],
        subresource=raw.get("subresource", ""),
        api_version=raw["apiVersion"],
    )
    paths = frozenset(field_sets.decode_fields_v1(raw.get("fieldsV1") or {}))
    return ManagedFieldsEntry(manager=manager, time=raw.get("time", ""), paths=paths)


def _changed_paths(before: Mapping[FieldPath, Any], after: Mapping[FieldPath, Any]) -> set[FieldPath]:
    """Fields that are new or other than before, and what holds new ones if there was no such thing."""
    new = {path for path, value in after.items() if path not in before or before[path] != value}
    return new | (_with_parent_paths(after) - _with_parent_paths(before))


def _plan_removal(released: frozenset[FieldPath], others: list[ManagedFieldsEntry]) -> FieldRemoval:
    """Of what a manager no longer applies, that goes which nobody else has a part in."""
    owned = {path for each in others for path in each.paths}
    return FieldRemoval(released - _with_parent_paths(owned), owned)


def _with_parent_paths(paths: Iterable[FieldPath]) -> set[FieldPath]:
    """Paths, and those of everything that holds them, but for metadata, which is always there."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)} - {("f:metadata",)}


def _without_removed_fields(
    entries: list[ManagedFieldsEntry], before: Iterable[FieldPath], after: Iterable[FieldPath]
) -> list[ManagedFieldsEntry]:
    """Entries without the fields that have just gone, and without managers of nothing."""
    gone = _with_parent_paths(before) - _with_parent_paths(after)
    left = [replace(each, paths=each.paths - gone) for each in entries]
    return [each for each in left if each.paths]


def _path_sort_key(path: FieldPath) -> list[tuple[bool, str]]:
    """Sorts paths as the real server lists them: at each level what ends there comes first."""
    return [(place < len(path) - 1, step) for place, step in enumerate(path)]


def _conflict_error(lost_fields: list[tuple[ManagedFieldsEntry, list[FieldPath]]]) -> Conflict:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_describe_manager(entry)}",
            "field": field_sets.format_path(path),
        }
        for entry, paths in lost_fields
        for path in paths
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        said = (
            f"conflicts with {_describe_manager(entry)}:\n"
            + "\n".join(f"- {field_sets.format_path(path)}" for path in paths)
            for entry, paths in lost_fields
        )
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(said)
    return Conflict(409, "Conflict", message, details={"causes": causes})


def _describe_manager(entry: ManagedFieldsEntry) -> str:
    manager = entry.manager
    name = f'"{manager.name}"' + (f' with subresource "{manager.subresource}"' if manager.subresource else "")
    return name if manager.operation == APPLY_OPERATION else f"{name} using {manager.api_version}"


def _merge_schema(kind: Kind) -> MergeSchema:
    if kind.is_custom:
        known = kind.schema.openapi if kind.schema is not None else {}
        return {**known, "properties": {**(known.get("properties") or {}), "metadata": _builtin_schema("ObjectMeta")}}
    return {} if kind.conversion is not None else _builtin_schema(kind.kind)


@cache
def _builtin_schema(kind_name: str) -> MergeSchema:
    """What Kubernetes publishes of a kind; the server's own rules let some lists repeat that are merged by key."""
    try:
        return load_definition(kind_name)
    except KeyError:
        return {}
