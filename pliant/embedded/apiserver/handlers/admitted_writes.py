"""Stores created and updated objects: admission, validation, names and addresses."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY, Admission
from pliant.embedded.apiserver.admission.custom_objects import with_type_of_object
from pliant.embedded.apiserver.admission.jobs import JOBS_RESOURCE_KEY
from pliant.embedded.apiserver.admission.plugins import ADMIT_ALL, AdmissionPlugins, Admitter, Operation
from pliant.embedded.apiserver.admission.priority_classes import set_pod_priority
from pliant.embedded.apiserver.admission.service_accounts import require_service_account
from pliant.embedded.apiserver.authorization.write_authorizer import WriteAuthorizer
from pliant.embedded.apiserver.handlers.crd_schema_fields import drop_empty_keywords
from pliant.embedded.apiserver.handlers.object_identities import ObjectIdentities
from pliant.embedded.apiserver.handlers.object_lifecycle import (
    NAMESPACES_RESOURCE_KEY,
    PODS_RESOURCE_KEY,
    ends_deletion,
    store_if_changed,
)
from pliant.embedded.apiserver.handlers.preconditions import is_version, require_active_namespace
from pliant.embedded.apiserver.handlers.protected_fields import OVERWRITTEN_METADATA, drop_unset_metadata
from pliant.embedded.apiserver.handlers.whole_numbers import to_stored_numbers
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.registry.crds import established_status
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey, StoredObject
from pliant.runtime.clock import Clock

UpdateFunction = Callable[[Object], Object]
"""Returns the new state of an object; it must not modify its argument."""


class Replacement(NamedTuple):
    """The new state of an object, and errors that its request has besides those of its fields."""

    current: StoredObject
    old: Object
    new: Object
    found: Sequence[FieldError] = ()


class AdmittedWriter:
    """Stores objects in a transaction after admission plug-ins, validation and authorization of what they grant."""

    def __init__(
        self,
        admission: Admission,
        plugins: AdmissionPlugins,
        authorizer: WriteAuthorizer,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._admission = admission
        self._plugins = plugins
        self._authorizer = authorizer
        self._clock = clock
        self._identities = ObjectIdentities(clock, rng)

    def create(self, transaction: Transaction, info: RequestInfo, obj: Object, warnings: list[str]) -> StoredObject:
        """Store the new object of a request."""
        admitter = self._plugins.admitter(info, transaction, Operation.CREATE, obj=obj, warnings=warnings)
        record = self.add_object(transaction, info.kind, info.namespace, obj, admitter)
        self._authorizer.check_object(transaction, info, obj, None)
        return record

    def require_create(self, info: RequestInfo) -> None:
        """Raise `Forbidden` unless the user of an update or apply may create its object."""
        self._authorizer.require_create(info)

    def replace(
        self,
        transaction: Transaction,
        info: RequestInfo,
        replacement: Replacement,
        warnings: list[str] | None,
        to_admitted: UpdateFunction | None = None,
    ) -> StoredObject:
        """Store the new state of the object of a request; admission plug-ins see what `to_admitted` returns for it."""
        current, old, new, _ = replacement
        admitter = self._update_admitter(info, transaction, current, new, warnings, to_admitted)
        is_status = info.subresource == "status"
        record = self._replace_object(transaction, info.kind, replacement, admitter, is_status=is_status)
        self._authorizer.check_object(transaction, info, new, old)
        return record

    def add_object(
        self, transaction: Transaction, kind: Kind, namespace: str, obj: Object, admitter: Admitter = ADMIT_ALL
    ) -> StoredObject:
        """Store a new object; a new namespace also gets its default service account."""
        metadata = obj.setdefault("metadata", {})
        version = str(metadata.get("resourceVersion") or "")
        require_active_namespace(transaction, kind, namespace, metadata)
        if kind.resource_key == PODS_RESOURCE_KEY:  # before it has a generated name, as errors show
            require_service_account(transaction, kind, namespace, obj)
            set_pod_priority(transaction, kind, obj)
        found = self._identities.assign_name(transaction, kind, namespace, metadata)
        for field in (*OVERWRITTEN_METADATA, "resourceVersion"):
            metadata.pop(field, None)
        metadata |= self._identities.new_metadata()
        drop_unset_metadata(metadata, keeps_self_link=transaction.is_dry_run)
        if kind.has_generation:
            metadata["generation"] = 1
        if kind.has_status:
            obj.pop("status", None)
        self._admit(kind, obj, None, admitter, found, is_dry_run=transaction.is_dry_run)
        if version and transaction.is_dry_run:
            metadata["resourceVersion"] = version
        elif is_version(version):
            raise errors.unexpected_error("resourceVersion should not be set on objects to be created")
        existing = transaction.get(ObjectKey(kind.resource_key, namespace, metadata["name"]))
        if existing is not None:
            raise errors.already_exists(
                kind, metadata["name"], is_terminating=existing.is_terminating, is_generated="generateName" in metadata
            )
        self._allocate_addresses(transaction, kind, obj, None)
        if kind.is_custom:
            to_stored_numbers(obj)
        record = transaction.put(kind.resource_key, kind.to_stored(obj))
        if kind.resource_key == NAMESPACES_RESOURCE_KEY:
            self._add_default_service_account(transaction, metadata["name"])
        return record

    def _update_admitter(
        self,
        info: RequestInfo,
        transaction: Transaction,
        current: StoredObject,
        new: Object,
        warnings: list[str] | None,
        to_admitted: UpdateFunction | None = None,
    ) -> Admitter:
        if not self._plugins.are_active(info, transaction):
            return ADMIT_ALL
        # The new object may share parts with the decoded one, so the plug-ins get their own copy of the old one.
        old = info.kind.to_served(current.decode())
        if to_admitted is not None:
            new, old = to_admitted(new), to_admitted(old)
        return self._plugins.admitter(info, transaction, Operation.UPDATE, obj=new, old=old, warnings=warnings)

    def _replace_object(
        self, transaction: Transaction, kind: Kind, replacement: Replacement, admitter: Admitter, *, is_status: bool
    ) -> StoredObject:
        """Validate and store a new state of an object; nothing is written if it is unchanged."""
        current, _, obj, found = replacement
        old = current.decode()
        has_labels = bool(obj["metadata"].get("labels"))
        self._admit(kind, obj, old, admitter, found, is_dry_run=transaction.is_dry_run)
        if is_status and kind.resource_key == JOBS_RESOURCE_KEY and ends_deletion(kind.resource_key, obj):
            # The default labels of a job are set when it is read from the storage, in which it is no more.
            obj["metadata"] = {name: value for name, value in obj["metadata"].items() if has_labels or name != "labels"}
        self._allocate_addresses(transaction, kind, obj, old)
        return store_if_changed(transaction, kind, current, old, kind.to_stored(obj), is_status=is_status)

    def _admit(
        self,
        kind: Kind,
        obj: Object,
        old: Object | None,
        admitter: Admitter,
        found: Sequence[FieldError],
        *,
        is_dry_run: bool,
    ) -> None:
        """Set the defaults of an object and validate it; `found` are errors that its request has besides."""
        field_errors = self._admission.set_defaults_and_validate(
            kind, obj, old, admitter.mutate, found=found, is_dry_run=is_dry_run
        )
        if field_errors:
            title = kind if not kind.is_custom else with_type_of_object(kind, obj)
            raise errors.invalid_object(title, obj["metadata"].get("name") or "", field_errors)
        if kind.resource_key == CRDS_RESOURCE_KEY:
            drop_empty_keywords(obj)
        # A dry run shows a status as the client writes it.
        if kind.resource_key == CRDS_RESOURCE_KEY and not (old and old["spec"] == obj["spec"] and is_dry_run):
            obj["status"] = established_status(obj, self._clock.now())
        admitter.validate()

    def _allocate_addresses(self, transaction: Transaction, kind: Kind, obj: Object, old: Object | None) -> None:
        if field_errors := self._admission.allocate_service_addresses(transaction, kind, obj, old):
            raise errors.invalid_object(kind, obj["metadata"]["name"], field_errors)

    def _add_default_service_account(self, transaction: Transaction, namespace: str) -> None:
        metadata = {"name": "default", "namespace": namespace, **self._identities.new_metadata()}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        transaction.put("/serviceaccounts", account)
