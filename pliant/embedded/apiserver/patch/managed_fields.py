"""The managers of the fields of an object, as `metadata.managedFields` records them.

An object gets `managedFields` with its first server-side apply; the manager `before-first-apply` owns the fields
that existed before. Other writes are tracked only from then on, so that objects without apply cost nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pliant.embedded.apiserver.patch import field_sets
from pliant.embedded.apiserver.patch.field_sets import FieldPath, FieldRemoval, MergeSchema
from pliant.embedded.apiserver.patch.merge_schemas import merge_schema
from pliant.embedded.apiserver.patch.server_set_fields import is_set_by_server
from pliant.embedded.apiserver.patch.status_metadata import WRITABLE_BY_STATUS
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import Conflict

APPLY_OPERATION, UPDATE_OPERATION = "Apply", "Update"
_SERVER_MANAGED_METADATA = frozenset(
    {"name", "namespace", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp"}
    | {"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "selfLink"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedFieldsEntry:
    manager: str
    operation: str
    subresource: str = ""
    api_version: str
    time: str
    paths: frozenset[FieldPath]

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.manager, self.operation, self.subresource

    def __str__(self) -> str:
        """Return the manager as it appears in the message of a conflict."""
        name = f'"{self.manager}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        return name if self.operation == APPLY_OPERATION else f"{name} using {self.api_version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteScope:
    """The fields that an endpoint of a kind can write."""

    schema: MergeSchema
    is_status: bool = False
    status_metadata: Collection[str] = ()
    """The fields of the metadata that a write of the status writes, too."""
    has_status: bool = False
    keeps_empty_fields: bool = True
    """Whether empty fields are stored. Built-in kinds omit them, but their manager owns them nevertheless."""

    @classmethod
    def for_endpoint(cls, kind: Kind, subresource: str) -> WriteScope:
        return cls(
            schema=merge_schema(kind),
            is_status=subresource == "status",
            status_metadata=WRITABLE_BY_STATUS.get(kind.resource_key, ()),
            has_status=kind.has_status,
            keeps_empty_fields=kind.is_custom,
        )

    def manageable_fields(self, obj: Object, *, is_applied: bool = False) -> dict[FieldPath, Any]:
        """Return every writable field of an object that can have a manager, with its value."""
        metadata = obj.get("metadata", {}).items()
        managed = {name: value for name, value in metadata if name not in _SERVER_MANAGED_METADATA}
        if self.is_status:
            managed = {name: value for name, value in managed.items() if name in self.status_metadata}
            writable = {"metadata": managed} if managed else {}
            writable |= {"status": obj["status"]} if "status" in obj else {}
        else:
            excluded = {"apiVersion", "kind", "metadata", *(["status"] if self.has_status else [])}
            writable = {"metadata": managed} if managed else {}
            writable |= {name: value for name, value in obj.items() if name not in excluded}
        return dict(field_sets.iter_fields(writable, self.schema, is_applied=is_applied)) if writable else {}


def apply_to_live(
    live: Object, desired: Object, scope: WriteScope, entry: ManagedFieldsEntry, *, force: bool
) -> tuple[Object, list[ManagedFieldsEntry]]:
    """Merge an applied configuration into a live object, and return it with its managers.

    Raise `Conflict` if that changes fields of other managers, unless `force` is set.
    """
    entries = decode_entries(live, scope)
    before = next((each for each in entries if each.identity == entry.identity), None)
    others = [each for each in entries if each is not before]
    result = field_sets.merge_applied_configuration(live, desired, scope.schema)
    live_fields = scope.manageable_fields(live)
    changed = _changed_paths(live_fields, scope.manageable_fields(result))
    conflicts = [(each, sorted(each.paths & changed, key=_path_sort_key)) for each in others if each.paths & changed]
    if conflicts and not force:
        raise _conflict_error(sorted(conflicts, key=lambda each: str(each[0])))
    others = [replace(each, paths=each.paths - changed) for each in others]
    stored = result
    if before is not None:
        removal = _plan_removal(before.paths, entry.paths, others, scope.schema)
        result = removal.apply(result, scope.schema)
        stored = result if scope.keeps_empty_fields else replace(removal, owned=set()).apply(stored, scope.schema)
    if before is not None and before.paths == entry.paths and stored == live:
        return stored, entries
    return stored, _without_removed_fields([*others, entry], live_fields, scope.manageable_fields(result))


def managers_after_update(
    old: Object, new: Object, scope: WriteScope, entry: ManagedFieldsEntry
) -> list[ManagedFieldsEntry]:
    """Return the managers after an update or patch, whose writer owns the fields that it changed."""
    has_no_manager = old["metadata"].get("managedFields") == []
    entries = [] if has_no_manager else decode_entries(old, scope)
    old_fields, new_fields = scope.manageable_fields(old), scope.manageable_fields(new)
    changed = _changed_paths(old_fields, new_fields)
    if not changed and not (old_fields.keys() - new_fields.keys()):
        return entries
    others = [each for each in entries if each.identity != entry.identity]
    own = frozenset(changed).union(*(each.paths for each in entries if each not in others))
    others = [replace(each, paths=each.paths - changed) for each in others]
    same = next((each for each in entries if each.identity == entry.identity and each.paths == own), None)
    return _without_removed_fields([*others, same or replace(entry, paths=own)], old_fields, new_fields)


def encode_managed_fields(entries: list[ManagedFieldsEntry]) -> list[dict[str, Any]]:
    return [
        {
            "manager": each.manager,
            "operation": each.operation,
            "apiVersion": each.api_version,
            "time": each.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_sets.encode_fields_v1(each.paths),
            **({"subresource": each.subresource} if each.subresource else {}),
        }
        for each in entries
    ]


def decode_entries(obj: Object, scope: WriteScope) -> list[ManagedFieldsEntry]:
    """Return the managers of an object, with those that own its fields before the first apply."""
    managed_fields = obj["metadata"].get("managedFields")
    if managed_fields:
        return [_decode_entry(each) for each in managed_fields]
    if managed_fields == []:  # somebody has applied it, but no fields
        return [_first_entry(obj, replace(scope, is_status=False), has_server_fields=True)]
    entries = [_first_entry(obj, replace(scope, is_status=False))]
    status = _first_entry(obj, replace(scope, is_status=True, status_metadata=())) if scope.has_status else None
    if status is not None and status.paths:
        entries.append(replace(status, subresource="status"))
    return entries


def _first_entry(obj: Object, scope: WriteScope, *, has_server_fields: bool = False) -> ManagedFieldsEntry:
    paths = frozenset(scope.manageable_fields(obj))
    return ManagedFieldsEntry(
        manager="before-first-apply",
        operation=UPDATE_OPERATION,
        api_version=obj["apiVersion"],
        time=obj["metadata"].get("creationTimestamp", ""),
        paths=paths if has_server_fields else frozenset(path for path in paths if not is_set_by_server(path, obj)),
    )


def _decode_entry(raw: Mapping[str, Any]) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=raw["manager"],
        operation=raw["operation"],
        subresource=raw.get("subresource", ""),
        api_version=raw["apiVersion"],
        time=raw.get("time", ""),
        paths=frozenset(field_sets.decode_fields_v1(raw.get("fieldsV1") or {})),
    )


def _changed_paths(before: Mapping[FieldPath, Any], after: Mapping[FieldPath, Any]) -> set[FieldPath]:
    """Return the paths of new and changed fields, and those of their parents that are new.

    An object or a list that became empty is no new field.
    """
    new = {path for path, value in after.items() if path in before and not _are_equal(before[path], value)}
    return new | (_with_parent_paths(after) - _with_parent_paths(before))


def _are_equal(value: Any, other: Any) -> bool:
    return bool(value == other) and (type(value) is bool) == (type(other) is bool)


def _plan_removal(
    before: frozenset[FieldPath], applied: frozenset[FieldPath], others: list[ManagedFieldsEntry], schema: MergeSchema
) -> FieldRemoval:
    """Remove the fields that a manager no longer applies, unless other managers own them or parts of them.

    With all its owned parts, a declared field is removed as a whole: its other parts are defaults.
    """
    owned = {path for each in others for path in each.paths}
    declared = {each for each in _with_parent_paths(before) if field_sets.is_declared_field(each, schema)}
    released = (before | declared) - _with_parent_paths(applied)
    return FieldRemoval(released - _with_parent_paths(owned), owned)


def _with_parent_paths(paths: Iterable[FieldPath]) -> set[FieldPath]:
    """Return paths and all their parents, except for metadata, which every object has."""
    return {path[:length] for path in paths for length in range(1, len(path) + 1)} - {("f:metadata",)}


def _without_removed_fields(
    entries: list[ManagedFieldsEntry], before: Iterable[FieldPath], after: Iterable[FieldPath]
) -> list[ManagedFieldsEntry]:
    """Return entries without the removed fields; entries without fields are dropped."""
    removed = _with_parent_paths(before) - _with_parent_paths(after)
    remaining = [replace(each, paths=each.paths - removed) for each in entries]
    return [each for each in remaining if each.paths]


def _path_sort_key(path: FieldPath) -> list[tuple[bool, str]]:
    """Sort paths as kube-apiserver does: at each level, the paths that end there come first."""
    return [(index < len(path) - 1, element) for index, element in enumerate(path)]


def _conflict_error(conflicts: list[tuple[ManagedFieldsEntry, list[FieldPath]]]) -> Conflict:
    causes, summaries = [], []
    for entry, paths in conflicts:
        fields = [field_sets.format_field_path(path) for path in paths]
        cause = {"reason": "FieldManagerConflict", "message": f"conflict with {entry}"}
        causes += [{**cause, "field": field} for field in fields]
        summaries.append("\n".join([f"conflicts with {entry}:", *(f"- {field}" for field in fields)]))
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(summaries)
    return Conflict(409, "Conflict", message, details={"causes": causes})
