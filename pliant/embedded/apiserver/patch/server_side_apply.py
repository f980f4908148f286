"""Server-side apply: a manager sends its desired fields of an object and becomes their owner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pliant.embedded.apiserver.admission.validation.endpoint_slices import (
    ENDPOINT_SLICES_RESOURCE_KEY,
    set_endpoint_slice_defaults,
)
from pliant.embedded.apiserver.admission.validation.namespaces import with_name_label
from pliant.embedded.apiserver.http.errors import unexpected_error
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch import managed_fields
from pliant.embedded.apiserver.patch.field_sets import FieldPath, MergeSchema
from pliant.embedded.apiserver.patch.managed_fields import ManagedFieldsEntry, WriteScope
from pliant.embedded.apiserver.patch.merge_schemas import merge_schema
from pliant.embedded.apiserver.patch.typed_configurations import find_type_problems
from pliant.embedded.apiserver.protobuf.typed_objects import fill_zero_values, written_empty_lists
from pliant.embedded.schema import deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import APPLY_PATCH

_IDENTITY_FIELDS = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
"""Fields of metadata that stay, also if a manager who applied `metadata: {}` no longer does."""


def _check_live_object(live: Object, schema: MergeSchema) -> None:
    """Raise the error of API servers for a valid object whose fields cannot be merged, such as a set of objects."""
    for problem in find_type_problems(live, schema, is_builtin=False, is_stored=True):
        raise unexpected_error(f"failed to convert live object to smd typed: {problem}")


def is_apply_patch(info: RequestInfo) -> bool:
    return info.request.content_type.partition(";")[0].strip() == APPLY_PATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRequest:
    desired: Object
    info: RequestInfo
    scope: WriteScope
    now: datetime
    force: bool

    @classmethod
    def from_request(cls, info: RequestInfo, now: datetime) -> ApplyRequest:
        desired = decode_object_body(info.request)
        scope = WriteScope.for_endpoint(info.kind, info.subresource)
        return cls(desired=desired, info=info, scope=scope, now=now, force=info.query_bool("force"))

    def for_object(self, desired: Object) -> ApplyRequest:
        """Return the same request for another configuration: that of the object behind an applied Scale."""
        return replace(self, desired=desired)

    def new_object(self) -> Object:
        """Return the object to create if it does not exist."""
        obj: Object = deep_copy(self.desired)
        entry = self._managed_fields_entry()
        if entry.paths:
            obj["metadata"]["managedFields"] = managed_fields.encode_managed_fields([entry])
        return obj

    def merge_into(self, live: Object) -> tuple[Object, list[Object]]:
        """Return the merged object and its `managedFields`; raise `Conflict` if it changes fields of other managers."""
        _require_named_secrets(self.info, live)
        if self.info.kind.is_custom:
            _check_live_object(live, merge_schema(self.info.kind))
        entry = self._managed_fields_entry()
        result, entries = managed_fields.apply_to_live(live, self.desired, self.scope, entry, force=self.force)
        if not entry.paths and "managedFields" not in live["metadata"]:
            entries = []  # a configuration without fields begins no records: nothing changes
        kept = {name: live["metadata"][name] for name in _IDENTITY_FIELDS if name in live["metadata"]}
        result["metadata"] = {**kept, **(result.get("metadata") or {})}
        return result, managed_fields.encode_managed_fields(entries)

    def _managed_fields_entry(self) -> ManagedFieldsEntry:
        paths = frozenset(self.scope.manageable_fields(self.desired, is_applied=True))
        return _create_entry(self.info, managed_fields.APPLY_OPERATION, self.now, paths)


def _require_named_secrets(info: RequestInfo, live: Object) -> None:
    """Refuse to merge a service account with a secret without a name: of all lists, only this one has optional keys."""
    if info.kind.resource_key == "/serviceaccounts" and any(not each.get("name") for each in live.get("secrets") or ()):
        raise unexpected_error('failed to create typed live object: .secrets: an element omits all key fields ["name"]')


def with_updated_managed_fields(
    info: RequestInfo, old: Object, new: Object, now: datetime, restored: Object | None = None
) -> Object:
    """Update the `managedFields` of an object that has them, after an update or patch.

    A write of an empty list begins them: the stored object does not show that somebody has written it. So does a
    write of fields that the endpoint has `restored`: the writer manages the values that it sent, which may be empty.
    """
    emptied: Object = {name: [] for name, value in old.items() if type(value) is list and value and not new.get(name)}
    empty_lists = written_empty_lists(info.kind.api_version, info.kind.kind, new)
    begins = empty_lists or written_empty_lists(info.kind.api_version, info.kind.kind, emptied)
    if "managedFields" not in old["metadata"] and not begins and restored is None:
        return new
    scope = WriteScope.for_endpoint(info.kind, info.subresource)
    overlay = restored or {}
    written: Object = deep_copy({name: each for name, each in {**new, **overlay}.items() if overlay.get(name, True)})
    if info.kind.schema is not None:  # the writer owns the defaults of fields that it leaves out
        info.kind.schema.default(written)
    if info.kind.resource_key == ENDPOINT_SLICES_RESOURCE_KEY:
        set_endpoint_slice_defaults(written, old)
    if not info.kind.is_custom:
        fill_zero_values(info.kind.api_version, info.kind.kind, written)
        written |= empty_lists
    entry = _create_entry(info, managed_fields.UPDATE_OPERATION, now)
    entries = managed_fields.encode_managed_fields(managed_fields.managers_after_update(old, written, scope, entry))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def with_managers_after_scale(info: RequestInfo, old: Object, new: Object, now: datetime) -> Object:
    """Return a custom object whose Scale was written, with its managers.

    As in API servers, an update of the Scale leaves the replicas without a manager, and a patch gives them one only if
    they had one before.
    """
    assert info.kind.scale is not None
    replicas = tuple(f"f:{name}" for name in info.kind.scale.spec_replicas.strip(".").split("."))
    entries = managed_fields.decode_entries(old, WriteScope.for_endpoint(info.kind, ""))
    if info.request.method == "PATCH" and any(replicas in each.paths for each in entries):
        return with_updated_managed_fields(info, old, new, now)
    remaining = [replace(each, paths=each.paths - {replicas}) for each in entries]
    encoded = managed_fields.encode_managed_fields([each for each in remaining if each.paths])
    return {**new, "metadata": {**new["metadata"], "managedFields": encoded}}


def add_first_manager(info: RequestInfo, obj: Object, now: datetime) -> None:
    """Add the `managedFields` of a new object with an empty list, or with a value that it would also have by default.

    The stored object does not show that somebody has written it.
    """
    is_namespace = info.kind.resource_key == "/namespaces"
    has_default = is_namespace and (obj.get("spec") or {}).get("finalizers") == ["kubernetes"]
    if has_default or written_empty_lists(info.kind.api_version, info.kind.kind, obj):
        written = with_name_label(obj) if has_default else obj
        paths = frozenset(WriteScope.for_endpoint(info.kind, "").manageable_fields(written))
        entry = _create_entry(info, managed_fields.UPDATE_OPERATION, now, paths)
        obj["metadata"]["managedFields"] = managed_fields.encode_managed_fields([entry])


def _create_entry(
    info: RequestInfo, operation: str, now: datetime, paths: frozenset[FieldPath] = frozenset()
) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(
        manager=info.query_text("fieldManager") or "unknown",
        operation=operation,
        subresource=info.subresource,
        api_version=info.kind.api_version,
        time=format_timestamp(now),
        paths=paths,
    )
