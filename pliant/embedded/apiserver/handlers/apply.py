"""Server-side apply, with its checks in the order of kube-apiserver: the type, the types of the fields, the result."""

from __future__ import annotations

from typing import Any

from pliant.embedded.apiserver.handlers.admitted_writes import AdmittedWriter, Replacement, UpdateFunction
from pliant.embedded.apiserver.handlers.crd_schema_fields import (
    find_empty_keywords,
    find_schema_type_problems,
    prune_crd_schemas,
)
from pliant.embedded.apiserver.handlers.object_lifecycle import CRDS_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.preconditions import (
    parse_resource_version,
    require_active_namespace,
    require_preconditions,
)
from pliant.embedded.apiserver.handlers.protected_fields import restore_protected_fields, written_empty_bytes
from pliant.embedded.apiserver.handlers.write_checks import (
    convert_numbers,
    read_embedded_resources,
    read_numbers,
    require_matching_name,
)
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import write_response
from pliant.embedded.apiserver.patch.merge_schemas import merge_schema
from pliant.embedded.apiserver.patch.server_side_apply import ApplyRequest
from pliant.embedded.apiserver.patch.typed_configurations import find_type_problems
from pliant.embedded.apiserver.protobuf.typed_objects import read_typed_object
from pliant.embedded.apiserver.protobuf.typed_values import TypeMismatch, read_time
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, StoredObject
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock

_TIMES_OF_SERVER = ("creationTimestamp", "deletionTimestamp")


class ObjectApplier:
    """Implements server-side apply of objects, and of their subresources."""

    def __init__(self, store: Store, writer: AdmittedWriter, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock

    async def apply(self, info: RequestInfo) -> Reply:
        """Apply the configuration of a request to its object, or create the object from it."""
        if info.subresource:
            info.require_stored_object(self._store.committed)
        apply_request = ApplyRequest.from_request(info, self._clock.now())
        warnings: list[str] = []

        def apply(transaction: Transaction) -> tuple[int, StoredObject]:
            current = transaction.get(info.key)
            if current is None and info.subresource:  # deleted in the meantime
                raise errors.not_found(info.kind, info.name)
            if current is None:
                return 201, self._create_by_apply(transaction, apply_request, warnings)
            _check_configuration(info, apply_request.desired)
            record = self._apply_to(transaction, info, current, apply_request, warnings)
            return 200, record

        status, record = await self._store.run_transaction(apply, dry_run=info.is_dry_run)
        return write_response(info.kind, record, warnings, status)

    def _create_by_apply(
        self, transaction: Transaction, apply_request: ApplyRequest, warnings: list[str]
    ) -> StoredObject:
        info = apply_request.info
        self._writer.require_create(info)
        _check_configuration(info, apply_request.desired)
        new = apply_request.new_object()
        _read_merged(info, apply_request.desired, new)
        new["metadata"].setdefault("managedFields", [])  # the next manager to apply finds no other one
        if uid := new["metadata"].get("uid"):
            detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(info.kind, info.name, detail)
        require_active_namespace(transaction, info.kind, info.namespace, new["metadata"])
        parse_resource_version(new["metadata"])
        if not info.is_dry_run:  # which keeps it
            new["metadata"].pop("resourceVersion", None)
        return self._writer.create(transaction, info, new, warnings)

    def require_stored_object(self, info: RequestInfo) -> None:
        """Raise `NotFound` unless the object of a request exists."""
        info.require_stored_object(self._store.committed)

    async def apply_by_request(
        self, info: RequestInfo, apply_request: ApplyRequest, to_admitted: UpdateFunction
    ) -> StoredObject:
        """Apply a configuration of an existing object; admission plug-ins see what `to_admitted` returns for it."""

        def apply(transaction: Transaction) -> StoredObject:
            current = info.require_stored_object(transaction)
            return self._apply_to(transaction, info, current, apply_request, None, to_admitted)

        return await self._store.run_transaction(apply, dry_run=info.is_dry_run)

    def _apply_to(
        self,
        transaction: Transaction,
        info: RequestInfo,
        current: StoredObject,
        apply_request: ApplyRequest,
        warnings: list[str] | None,
        to_admitted: UpdateFunction | None = None,
    ) -> StoredObject:
        old = info.kind.to_served(current.decode())
        new, managed_fields = apply_request.merge_into(old)
        empty = written_empty_bytes(info.kind, new)
        _read_merged(info, apply_request.desired, new)
        new |= empty
        found = require_preconditions(info, old, new, allow_unconditional=True)
        uid = new["metadata"].get("uid")
        new = restore_protected_fields(info, old, new)
        if managed_fields or "managedFields" in old["metadata"]:
            new["metadata"] = {**new["metadata"], "managedFields": managed_fields}
        if found and uid and not info.subresource:
            new["metadata"]["uid"] = uid
        return self._writer.replace(transaction, info, Replacement(current, old, new, found), warnings, to_admitted)


def _check_configuration(info: RequestInfo, desired: Object) -> None:
    """Check the type and the fields of an applied configuration before it is merged.

    It keeps its empty fields, which its manager then owns; its values are read when it is merged.
    """
    kind = info.kind
    group, version = _parse_api_version(desired.get("apiVersion"))
    name = desired.get("kind") if isinstance(desired.get("kind"), str) else ""
    if (group, version, name) != (kind.group, kind.version, kind.kind):
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    metadata = desired.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise errors.bad_request("metadata.managedFields must be nil")
    try:
        read_numbers(info, desired, is_applied=True)
    except TypeMismatch as error:
        raise errors.unexpected_error(f"failed to read the configuration: {error}") from None
    problems = list(find_type_problems(desired, merge_schema(kind), is_builtin=not kind.is_custom))
    if not problems and kind.schema is not None:
        unknown = kind.schema.prune(desired, keep_nulls=True)
        if kind.conversion is not None:  # which has no schema for merging
            problems = [f".{field}: field not declared in schema" for field in unknown]
    if not problems and kind.resource_key == CRDS_RESOURCE_KEY:
        problems = list(find_schema_type_problems(desired))
        prune_crd_schemas(desired)
    if problems:
        text = problems[0] if len(problems) == 1 else "\n  ".join(("errors:", *problems))
        raise errors.unexpected_error(f"failed to create typed patch object ({_title(info, desired)}): {text}")
    if desired.get("metadata") is None:
        desired["metadata"] = {}
    desired["metadata"].pop("managedFields", None)


def _read_merged(info: RequestInfo, desired: Object, merged: Object) -> None:
    """Read the values of a merged object as the types of their fields, and check its name."""
    kind, metadata = info.kind, merged["metadata"]
    if kind.is_custom:
        _drop_invalid_times(desired["metadata"], metadata)
    else:
        convert_numbers(info, merged)
        metadata = merged["metadata"]
    empty_keywords = find_empty_keywords(merged) if kind.resource_key == CRDS_RESOURCE_KEY else []
    try:
        read_typed_object(kind.api_version, kind.kind, merged)
        if kind.is_custom:
            read_embedded_resources(kind, merged)
            read_numbers(info, merged, is_applied=True)
    except TypeMismatch as error:
        message = f"failed to convert new object ({_title(info, desired)}) to proper version: {error}"
        raise errors.unexpected_error(message) from None
    for schema, keywords in empty_keywords:
        schema |= keywords
    require_matching_name(info, metadata)


def _drop_invalid_times(desired: Object, metadata: Object) -> None:
    """Ignore times that only the server writes and that are none, as kube-apiserver does for custom objects."""
    for field in _TIMES_OF_SERVER:
        try:
            if field in desired:
                read_time(desired[field])
        except TypeMismatch:
            metadata.pop(field, None)


def _title(info: RequestInfo, desired: Object) -> str:
    """Return an applied configuration as messages name it."""
    metadata = desired.get("metadata")
    fields = metadata if isinstance(metadata, dict) else {}
    namespace, name = (each if isinstance(each, str) else "" for each in map(fields.get, ("namespace", "name")))
    return f"{namespace}/{name}; {info.kind.group}/{info.kind.version}, Kind={info.kind.kind}"


def _parse_api_version(value: Any) -> tuple[str, str]:
    if not isinstance(value, str) or value.count("/") > 1:
        return "", ""
    group, _, version = value.rpartition("/")
    return group, version
