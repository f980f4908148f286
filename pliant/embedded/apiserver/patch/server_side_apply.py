"""Server-side apply: a manager sends its desired fields of an object and becomes their owner."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.apiserver.http.errors import bad_request, invalid_field, invalid_options, required_field
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.patch.field_sets import FieldPath
from pliant.embedded.apiserver.patch.managed_fields import (
    APPLY_OPERATION,
    UPDATE_OPERATION,
    ManagedFieldsEntry,
    WriteScope,
    apply_to_live,
    encode_managed_fields,
    track_update,
)
from pliant.embedded.schema import deep_copy
from pliant.embedded.storage.stored_objects import Object
from pliant.kube.transport.base import APPLY_PATCH

_MAX_FIELD_MANAGER_LENGTH = 128


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
        name = info.query_text("fieldManager")
        if not name:
            raise invalid_options("PATCH", required_field("fieldManager", "is required for apply patch"))
        if len(name) > _MAX_FIELD_MANAGER_LENGTH or not name.isprintable():
            detail = f"must be at most {_MAX_FIELD_MANAGER_LENGTH} printable characters"
            raise invalid_options("PATCH", invalid_field("fieldManager", name, detail))
        desired = decode_object_body(info.request)
        if isinstance(desired.get("metadata"), dict) and desired["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        scope = WriteScope.for_endpoint(info.kind, info.subresource)
        return cls(desired=desired, info=info, scope=scope, now=now, force=info.query_bool("force"))

    def new_object(self) -> Object:
        """Return the object to create if it does not exist."""
        obj: Object = deep_copy(self.desired)
        entry = self._managed_fields_entry()
        if entry.paths:
            obj["metadata"]["managedFields"] = encode_managed_fields([entry])
        return obj

    def merge_into(self, live: Object) -> tuple[Object, list[Object]]:
        """Return the merged object and its `managedFields`; raise `Conflict` if it changes fields of other managers."""
        result, entries = apply_to_live(live, self.desired, self.scope, self._managed_fields_entry(), force=self.force)
        return result, encode_managed_fields(entries)

    def _managed_fields_entry(self) -> ManagedFieldsEntry:
        paths = frozenset(self.scope.manageable_fields(self.desired))
        return _create_entry(self.info, APPLY_OPERATION, self.now, paths)


def with_updated_managed_fields(info: RequestInfo, old: Object, new: Object, now: datetime) -> Object:
    """Update the `managedFields` of an object that has them, after an update or patch."""
    if "managedFields" not in old["metadata"]:
        return new
    scope = WriteScope.for_endpoint(info.kind, info.subresource)
    entries = encode_managed_fields(track_update(old, new, scope, _create_entry(info, UPDATE_OPERATION, now)))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


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
