"""Create, update and patch: read strictly, decided atomically, kept only when sound."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable

from pliant.embedded.apiserver.admission.admission import CRDS, Admission
from pliant.embedded.apiserver.admission.priority_classes import set_pod_priority
from pliant.embedded.apiserver.handlers.object_lifecycle import NAMESPACES, PODS, format_timestamp, update_stored
from pliant.embedded.apiserver.http.errors import (
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid_object,
    invalid_options,
    not_found,
    unknown_fields_error,
)
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import encode_in_version, warning_headers
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.apiserver.patch.server_side_apply import ApplyRequest, is_apply_patch, with_updated_managed_fields
from pliant.embedded.registry.crds import established_status
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError, FieldErrorType
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey, StoredObject
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock

_NAME_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_FIELD_VALIDATION_MODES = ("Strict", "Warn", "Ignore")
_SERVER_OWNED_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_DROPPED_METADATA = ("selfLink",)
_OMIT_EMPTY_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")

UpdateFunction = Callable[[Object], Object]
"""From the present state of an object, which it leaves alone, to the state wanted."""


class ObjectWriter:
    """Turns write calls into stored objects."""

    def __init__(self, store: Store, admission: Admission, clock: Clock, rng: random.Random) -> None:
        self._store = store
        self._admission = admission
        self._clock = clock
        self._rng = rng

    async def create(self, info: RequestInfo) -> Reply:
        """Keep a new object."""
        obj = decode_object_body(info.request)
        warned = self._check_and_prune(info, obj)
        dry_run = info.is_dry_run

        def decide(transaction: Transaction) -> StoredObject:
            return self.add_object(transaction, info.kind, info.namespace, obj, allocate_cluster_ip=not dry_run)

        record = await self._store.write(decide, dry_run=dry_run)
        return Reply(status=201, body=encode_in_version(info.kind, record), headers=warning_headers(warned))

    async def update(self, info: RequestInfo) -> Reply:
        """Put a whole object in place of the one there."""
        obj = decode_object_body(info.request)
        warned = self._check_and_prune(info, obj)
        record = await self.update_current(info, lambda old: obj, allow_unconditional=not info.kind.is_custom)
        return Reply(status=200, body=encode_in_version(info.kind, record), headers=warning_headers(warned))

    async def patch(self, info: RequestInfo) -> Reply:
        """Change parts of an object; decided on its newest state, so there is no race to retry."""
        if is_apply_patch(info):
            return await self._server_side_apply(info)
        media, patch = read_patch(info)
        warned: list[str] = []

        def patched(old: Object) -> Object:
            new = apply_patch(media, old, patch)
            warned[:] = self._check_and_prune(info, new)
            return new

        record = await self.update_current(info, patched, allow_unconditional=True)
        return Reply(status=200, body=encode_in_version(info.kind, record), headers=warning_headers(warned))

    async def update_current(
        self, info: RequestInfo, update_function: UpdateFunction, *, allow_unconditional: bool
    ) -> StoredObject:
        """Keep a changed state of the object a call names."""

        def decide(transaction: Transaction) -> StoredObject:
            current = transaction.get(info.key)
            if current is None:
                raise not_found(info.kind, info.name)
            old = info.kind.to_served(current.decode())
            new = update_function(old)
            _require_preconditions(info, old, new, allow_unconditional=allow_unconditional)
            new = with_updated_managed_fields(info, old, _restore_protected_fields(info, old, new), self._clock.now())
            return self.replace_object(transaction, info.kind, current, new)

        return await self._store.write(decide, dry_run=info.is_dry_run)

    async def _server_side_apply(self, info: RequestInfo) -> Reply:
        """Keep what a manager wants of an object, which need not be there yet."""
        asked, dry_run = ApplyRequest.from_request(info, self._clock.now()), info.is_dry_run
        warned = self._check_and_prune(info, asked.desired)

        def decide(transaction: Transaction) -> tuple[int, StoredObject]:
            current = transaction.get(info.key)
            if current is None and info.subresource:
                raise not_found(info.kind, info.name)
            if current is None:
                fresh = asked.new_object()
                return 201, self.add_object(
                    transaction, info.kind, info.namespace, fresh, allocate_cluster_ip=not dry_run
                )
            old = info.kind.to_served(current.decode())
            new, managers = asked.merge_into(old)
            _require_preconditions(info, old, new, allow_unconditional=True)
            new = _restore_protected_fields(info, old, new)
            new["metadata"] = {**new["metadata"], "managedFields": managers}
            return 200, self.replace_object(transaction, info.kind, current, new)

        status, record = await self._store.write(decide, dry_run=dry_run)
        return Reply(status=status, body=encode_in_version(info.kind, record), headers=warning_headers(warned))

    def add_object(
        self, transaction: Transaction, kind: Kind, namespace: str, obj: Object, *, allocate_cluster_ip: bool = True
    ) -> StoredObject:
        """Keep a new object, together with what always comes with it."""
        metadata = obj.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        _require_active_namespace(transaction, kind, namespace, metadata)
        self._assign_name(transaction, kind, namespace, metadata)
        for field in (*_SERVER_OWNED_METADATA, "resourceVersion"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        metadata["creationTimestamp"] = format_timestamp(self._clock.now())
        _drop_unset_metadata(metadata)
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status:
            obj.pop("status", None)
        if kind.resource_key == PODS:
            set_pod_priority(transaction, kind, obj)
        self._admit(kind, obj, None)
        if allocate_cluster_ip:
            self._admission.allocate_cluster_ip(kind, obj)
        if transaction.get(ObjectKey(kind.resource_key, namespace, metadata["name"])) is not None:
            raise already_exists(kind, metadata["name"])
        record = transaction.put(kind.resource_key, kind.to_stored(obj))
        if kind.resource_key == NAMESPACES:
            self._add_default_service_account(transaction, metadata["name"])
        return record

    def replace_object(self, transaction: Transaction, kind: Kind, current: StoredObject, obj: Object) -> StoredObject:
        """Keep a new state of an object, if it is sound and really new."""
        old = current.decode()
        self._admit(kind, obj, old)
        return update_stored(transaction, kind, current, old, kind.to_stored(obj))

    def _admit(self, kind: Kind, obj: Object, old: Object | None) -> None:
        problems = self._admission.admit(kind, obj, old)
        if problems:
            raise invalid_object(kind, obj["metadata"].get("name") or "", problems)
        if kind.resource_key == CRDS:
            obj["status"] = established_status(obj, self._clock.now())

    def _assign_name(self, transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> None:
        if kind.namespaced:
            metadata["namespace"] = namespace
        prefix = metadata.get("generateName")
        if not metadata.get("name") and prefix and isinstance(prefix, str):
            drawn = prefix[:58] + "".join(self._rng.choices(_NAME_SUFFIX_ALPHABET, k=5))
            while transaction.get(ObjectKey(kind.resource_key, namespace, drawn)) is not None:
                drawn = prefix[:58] + "".join(self._rng.choices(_NAME_SUFFIX_ALPHABET, k=5))
            metadata["name"] = drawn
        if not metadata.get("name"):
            why = f"{FieldErrorType.REQUIRED.message_prefix}: name or generateName is required"
            raise invalid_object(kind, "", [FieldError("metadata.name", FieldErrorType.REQUIRED.cause, why)])

    def _add_default_service_account(self, transaction: Transaction, namespace: str) -> None:
        metadata = {
            "name": "default",
            "namespace": namespace,
            "uid": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "creationTimestamp": format_timestamp(self._clock.now()),
        }
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        transaction.put("/serviceaccounts", account)

    def _check_and_prune(self, info: RequestInfo, obj: Object) -> list[str]:
        """Refuse what is not an object of the kind; cut unknown fields and say which, as the client wished."""
        kind = info.kind
        _require_kind(kind, obj)
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise bad_request("metadata must be an object")
        metadata.pop("managedFields", None)
        if info.namespace and metadata.get("namespace") not in (None, "", info.namespace):
            why = "the namespace of the provided object does not match the namespace sent on the request"
            raise bad_request(why)
        if info.name and metadata.setdefault("name", info.name) != info.name:
            why = f"the name of the object ({metadata['name']}) does not match the name on the URL ({info.name})"
            raise bad_request(why)
        wish = info.query_text("fieldValidation") or "Warn"
        if wish not in _FIELD_VALIDATION_MODES:
            why = 'supported values: "", "Ignore", "Strict", "Warn"'
            problem = FieldError.of("fieldValidation", FieldErrorType.UNSUPPORTED, wish, why)
            raise invalid_options(info.request.method, problem)
        unknown = kind.schema.prune(obj) if kind.schema is not None else []
        if unknown and wish == "Strict":
            raise unknown_fields_error(kind, unknown)
        return [f'unknown field "{field}"' for field in unknown] if wish == "Warn" else []


def _require_kind(kind: Kind, obj: Object) -> None:
    if not kind.is_custom:  # of what is built in, the path says enough
        obj["kind"] = obj.get("kind") or kind.kind
        obj["apiVersion"] = obj.get("apiVersion") or kind.api_version
    said, version = obj.get("kind"), obj.get("apiVersion")
    if not said:
        raise bad_request(f"Object 'Kind' is missing in the body: expected {kind.kind}")
    if said != kind.kind or version != kind.api_version:
        raise bad_request(
            f"the object provided is {version or 'without apiVersion'}, Kind={said}, "
            f"but the request is for {kind.api_version}, Kind={kind.kind}"
        )


def _require_active_namespace(transaction: Transaction, kind: Kind, namespace: str, metadata: Object) -> None:
    if not kind.namespaced:
        return
    home = transaction.get(ObjectKey(NAMESPACES, "", namespace))
    if home is None:
        raise not_found(_NAMESPACE_KIND, namespace)
    if home.is_terminating:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        error = forbidden(kind, metadata.get("name") or "", why)
        cause = {"reason": "NamespaceTerminating", "message": f"namespace {namespace} is being terminated"}
        error.details["causes"] = [{**cause, "field": "metadata.namespace"}]
        raise error


_NAMESPACE_KIND = Kind(
    group="",
    version="v1",
    plural="namespaces",
    singular="namespace",
    kind="Namespace",
    namespaced=False,
    list_kind="NamespaceList",
)


def _require_preconditions(info: RequestInfo, old: Object, new: Object, *, allow_unconditional: bool) -> None:
    stated, present = new["metadata"].get("resourceVersion"), old["metadata"]["resourceVersion"]
    if not stated and not allow_unconditional:
        missing = FieldError.of(
            "metadata.resourceVersion", FieldErrorType.INVALID, 0, "must be specified for an update"
        )
        raise invalid_object(info.kind, info.name, [missing])
    if stated and stated != present:
        raise conflict(info.kind, info.name)
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"] and info.request.method == "PATCH":
        raise invalid_object(
            info.kind, info.name, [FieldError.of("metadata.uid", FieldErrorType.INVALID, uid, "field is immutable")]
        )
    if uid and uid != old["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
        raise conflict(info.kind, info.name, why)


def _restore_protected_fields(info: RequestInfo, old: Object, new: Object) -> Object:
    """The part of a change that this endpoint lets through."""
    if info.subresource == "status":
        kept = {**old}
        kept.pop("status", None)
        return {**kept, "status": new["status"]} if "status" in new else kept
    if info.kind.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    metadata = new["metadata"]
    for field in (*_SERVER_OWNED_METADATA, "managedFields"):
        metadata.pop(field, None)
        if field in old["metadata"]:
            metadata[field] = old["metadata"][field]
    _drop_unset_metadata(metadata)
    metadata["name"] = old["metadata"]["name"]
    if "namespace" in old["metadata"]:
        metadata["namespace"] = old["metadata"]["namespace"]
    return new


def _drop_unset_metadata(metadata: Object) -> None:
    """Leave out what the server does not keep, and what says nothing."""
    for field in _DROPPED_METADATA:
        metadata.pop(field, None)
    for field in _OMIT_EMPTY_METADATA:
        if not metadata.get(field, True):
            del metadata[field]
