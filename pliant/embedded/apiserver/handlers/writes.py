"""The verbs create, update and patch, and server-side apply."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY, Admission
from pliant.embedded.apiserver.admission.plugins import ADMIT_ALL, AdmissionPlugins, Admitter, Operation
from pliant.embedded.apiserver.admission.priority_classes import set_pod_priority
from pliant.embedded.apiserver.authorization.write_authorizer import WriteAuthorizer
from pliant.embedded.apiserver.handlers.apply_checks import check_configuration, read_merged
from pliant.embedded.apiserver.handlers.object_identities import ObjectIdentities
from pliant.embedded.apiserver.handlers.object_lifecycle import (
    NAMESPACES_RESOURCE_KEY,
    PODS_RESOURCE_KEY,
    store_if_changed,
)
from pliant.embedded.apiserver.handlers.preconditions import (
    is_version,
    parse_resource_version,
    require_active_namespace,
    require_no_uid,
    require_preconditions,
)
from pliant.embedded.apiserver.handlers.protected_fields import (
    OVERWRITTEN_METADATA,
    drop_unset_metadata,
    restore_protected_fields,
)
from pliant.embedded.apiserver.handlers.write_checks import (
    check_and_prune,
    require_type_of_path,
    validate_write_options,
)
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import encode_served_object, warning_headers
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.apiserver.patch.server_side_apply import (
    ApplyRequest,
    add_first_manager,
    is_apply_patch,
    with_updated_managed_fields,
)
from pliant.embedded.registry.crds import established_status
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey, StoredObject
from pliant.kube.transport.base import MERGE_PATCH, Reply
from pliant.runtime.clock import Clock

UpdateFunction = Callable[[Object], Object]
"""Returns the new state of an object; it must not modify its argument."""


class ObjectWriter:
    """Implements create, update, patch and server-side apply."""

    def __init__(
        self,
        store: Store,
        admission: Admission,
        plugins: AdmissionPlugins,
        authorizer: WriteAuthorizer,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._store = store
        self._authorizer = authorizer
        self._admission = admission
        self._plugins = plugins
        self._clock = clock
        self._identities = ObjectIdentities(clock, rng)

    async def create(self, info: RequestInfo) -> Reply:
        validate_write_options(info)
        obj = decode_object_body(info.request)
        warnings = check_and_prune(info, obj)

        add_first_manager(info, obj, self._clock.now())

        def add(transaction: Transaction) -> StoredObject:
            admitter = self._plugins.admitter(info, transaction, Operation.CREATE, obj=obj, warnings=warnings)
            record = self.add_object(transaction, info.kind, info.namespace, obj, admitter)
            self._authorizer.check_object(transaction, info, obj, None)
            return record

        return _write_response(
            info, await self._store.run_transaction(add, dry_run=info.is_dry_run), warnings, status=201
        )

    async def update(self, info: RequestInfo) -> Reply:
        """Replace an object; kinds that allow it are created if they do not exist."""
        validate_write_options(info)
        obj = decode_object_body(info.request)
        warnings = check_and_prune(info, obj)
        kind = info.kind

        def create_or_update(transaction: Transaction) -> tuple[int, StoredObject]:
            if kind.creates_on_update and not info.subresource and transaction.get(info.key) is None:
                return 201, self._create_by_update(transaction, info, obj, warnings)
            allows_unconditional = kind.allows_unconditional_update
            return 200, self._replace_by_function(
                transaction,
                info,
                lambda old: obj,
                allow_missing_resource_version=allows_unconditional,
                warnings=warnings,
            )

        status, record = await self._store.run_transaction(create_or_update, dry_run=info.is_dry_run)
        return _write_response(info, record, warnings, status)

    def _create_by_update(
        self, transaction: Transaction, info: RequestInfo, obj: Object, warnings: list[str]
    ) -> StoredObject:
        self._authorizer.require_create(info)
        require_no_uid(info, obj)
        parse_resource_version(obj["metadata"])
        if not info.is_dry_run:
            obj["metadata"].pop("resourceVersion", None)
        admitter = self._plugins.admitter(info, transaction, Operation.CREATE, obj=obj, warnings=warnings)
        add_first_manager(info, obj, self._clock.now())
        record = self.add_object(transaction, info.kind, info.namespace, obj, admitter)
        self._authorizer.check_object(transaction, info, obj, None)
        return record

    async def patch(self, info: RequestInfo) -> Reply:
        """Patch the newest state of an object, so that no conflict needs a retry."""
        validate_write_options(info)
        if is_apply_patch(info):
            return await self._server_side_apply(info)
        media, patch = read_patch(info)
        warnings: list[str] = []

        def with_patch(old: Object) -> Object:
            if media == MERGE_PATCH and isinstance(patch, list) and info.query_text("fieldValidation") == "Ignore":
                raise errors.invalid_patch("the result of the patch is not an object")
            new = apply_patch(media, old, patch)
            warnings[:] = check_and_prune(info, new)
            return new

        record = await self.update_by_function(
            info, with_patch, allow_missing_resource_version=info.kind.allows_unconditional_update, warnings=warnings
        )
        return _write_response(info, record, warnings)

    async def update_by_function(
        self,
        info: RequestInfo,
        update_function: UpdateFunction,
        *,
        allow_missing_resource_version: bool,
        warnings: list[str] | None = None,
        to_admitted: UpdateFunction | None = None,
    ) -> StoredObject:
        """Replace the object of a request, also without a resourceVersion if `allow_missing_resource_version`.

        Admission plug-ins see the object, or what `to_admitted` returns for it, such as its Scale.
        """

        def update(transaction: Transaction) -> StoredObject:
            return self._replace_by_function(
                transaction,
                info,
                update_function,
                allow_missing_resource_version=allow_missing_resource_version,
                warnings=warnings,
                to_admitted=to_admitted,
            )

        return await self._store.run_transaction(update, dry_run=info.is_dry_run)

    def _replace_by_function(
        self,
        transaction: Transaction,
        info: RequestInfo,
        update_function: UpdateFunction,
        *,
        allow_missing_resource_version: bool,
        warnings: list[str] | None = None,
        to_admitted: UpdateFunction | None = None,
    ) -> StoredObject:
        current = info.require_stored_object(transaction)
        old = info.kind.to_served(current.decode())
        new = update_function(old)
        found = require_preconditions(info, old, new, allow_unconditional=allow_missing_resource_version)
        uid = new["metadata"].get("uid")
        new = with_updated_managed_fields(info, old, restore_protected_fields(info, old, new), self._clock.now())
        if found and not info.subresource:  # the validators also see the UID that is refused
            new["metadata"]["uid"] = uid
        admitter = self._update_admitter(info, transaction, current, new, warnings, to_admitted)
        record = self.replace_object(transaction, info.kind, current, new, admitter, found)
        self._authorizer.check_object(transaction, info, new, old)
        return record

    async def _server_side_apply(self, info: RequestInfo) -> Reply:
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
            check_configuration(info, apply_request.desired)
            record = self._apply_to(transaction, info, current, apply_request, warnings)
            return 200, record

        status, record = await self._store.run_transaction(apply, dry_run=info.is_dry_run)
        return _write_response(info, record, warnings, status)

    def _create_by_apply(
        self, transaction: Transaction, apply_request: ApplyRequest, warnings: list[str]
    ) -> StoredObject:
        info = apply_request.info
        self._authorizer.require_create(info)
        check_configuration(info, apply_request.desired)
        new = apply_request.new_object()
        read_merged(info, apply_request.desired, new)
        if uid := new["metadata"].get("uid"):
            detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise errors.conflict(info.kind, info.name, detail)
        require_active_namespace(transaction, info.kind, info.namespace, new["metadata"])
        parse_resource_version(new["metadata"])
        new["metadata"].pop("resourceVersion", None)
        admitter = self._plugins.admitter(info, transaction, Operation.CREATE, obj=new, warnings=warnings)
        record = self.add_object(transaction, info.kind, info.namespace, new, admitter)
        self._authorizer.check_object(transaction, info, new, None)
        return record

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
        read_merged(info, apply_request.desired, new)
        found = require_preconditions(info, old, new, allow_unconditional=True)
        uid = new["metadata"].get("uid")
        new = restore_protected_fields(info, old, new)
        if managed_fields or "managedFields" in old["metadata"]:
            new["metadata"] = {**new["metadata"], "managedFields": managed_fields}
        if found and not info.subresource:
            new["metadata"]["uid"] = uid
        admitter = self._update_admitter(info, transaction, current, new, warnings, to_admitted)
        record = self.replace_object(transaction, info.kind, current, new, admitter, found)
        self._authorizer.check_object(transaction, info, new, old)
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

    def add_object(
        self, transaction: Transaction, kind: Kind, namespace: str, obj: Object, admitter: Admitter = ADMIT_ALL
    ) -> StoredObject:
        """Store a new object; a new namespace also gets its default service account."""
        metadata = obj.setdefault("metadata", {})
        version = str(metadata.get("resourceVersion") or "")
        require_active_namespace(transaction, kind, namespace, metadata)
        if kind.resource_key == PODS_RESOURCE_KEY:  # before it has a generated name, as errors show
            set_pod_priority(transaction, kind, obj)
        found = self._identities.assign_name(transaction, kind, namespace, metadata)
        for field in (*OVERWRITTEN_METADATA, "resourceVersion"):
            metadata.pop(field, None)
        metadata |= self._identities.new_metadata()
        drop_unset_metadata(metadata)
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
        record = transaction.put(kind.resource_key, kind.to_stored(obj))
        if kind.resource_key == NAMESPACES_RESOURCE_KEY:
            self._add_default_service_account(transaction, metadata["name"])
        return record

    def replace_object(
        self,
        transaction: Transaction,
        kind: Kind,
        current: StoredObject,
        obj: Object,
        admitter: Admitter = ADMIT_ALL,
        found: Sequence[FieldError] = (),
    ) -> StoredObject:
        """Validate and store a new state of an object; nothing is written if it is unchanged."""
        old = current.decode()
        self._admit(kind, obj, old, admitter, found, is_dry_run=transaction.is_dry_run)
        self._allocate_addresses(transaction, kind, obj, old)
        return store_if_changed(transaction, kind, current, old, kind.to_stored(obj))

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
        if kind.is_custom:
            require_type_of_path(kind, obj)
        field_errors = self._admission.set_defaults_and_validate(
            kind, obj, old, admitter.mutate, found=found, is_dry_run=is_dry_run
        )
        if field_errors:
            raise errors.invalid_object(kind, obj["metadata"].get("name") or "", field_errors)
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


def _write_response(info: RequestInfo, record: StoredObject, warnings: list[str], status: int = 200) -> Reply:
    return Reply(status=status, body=encode_served_object(info.kind, record), headers=warning_headers(warnings))
