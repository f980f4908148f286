"""The verbs create, update and patch."""

from __future__ import annotations

from pliant.embedded.apiserver.handlers.admitted_writes import AdmittedWriter, Replacement, UpdateFunction
from pliant.embedded.apiserver.handlers.apply import ObjectApplier
from pliant.embedded.apiserver.handlers.preconditions import (
    parse_resource_version,
    require_no_uid,
    require_preconditions,
)
from pliant.embedded.apiserver.handlers.protected_fields import find_restored_fields, restore_protected_fields
from pliant.embedded.apiserver.handlers.write_checks import check_and_prune, validate_write_options
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_body import decode_object_body
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import write_response
from pliant.embedded.apiserver.patch.patches import apply_patch, read_patch
from pliant.embedded.apiserver.patch.server_side_apply import (
    add_first_manager,
    is_apply_patch,
    with_managers_after_scale,
    with_updated_managed_fields,
)
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, StoredObject
from pliant.kube.transport.base import MERGE_PATCH, Reply
from pliant.runtime.clock import Clock


class ObjectWriter:
    """Implements create, update and patch; patches of one type are server-side applies."""

    def __init__(self, store: Store, writer: AdmittedWriter, clock: Clock) -> None:
        self._store = store
        self._writer = writer
        self._clock = clock
        self.applier = ObjectApplier(store, writer, clock)

    async def create(self, info: RequestInfo) -> Reply:
        validate_write_options(info)
        obj = decode_object_body(info.request)
        warnings = check_and_prune(info, obj)
        obj["metadata"].pop("selfLink", None)  # which other dry runs show
        add_first_manager(info, obj, self._clock.now())

        def add(transaction: Transaction) -> StoredObject:
            return self._writer.create(transaction, info, obj, warnings)

        record = await self._store.run_transaction(add, dry_run=info.is_dry_run)
        return write_response(info.kind, record, warnings, status=201)

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
        return write_response(info.kind, record, warnings, status)

    def _create_by_update(
        self, transaction: Transaction, info: RequestInfo, obj: Object, warnings: list[str]
    ) -> StoredObject:
        self._writer.require_create(info)
        require_no_uid(info, obj)
        parse_resource_version(obj["metadata"])
        if not info.is_dry_run:
            obj["metadata"].pop("resourceVersion", None)
        add_first_manager(info, obj, self._clock.now())
        return self._writer.create(transaction, info, obj, warnings)

    async def patch(self, info: RequestInfo) -> Reply:
        """Patch the newest state of an object, so that no conflict needs a retry."""
        validate_write_options(info)
        if is_apply_patch(info):
            return await self.applier.apply(info)
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
        return write_response(info.kind, record, warnings)

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
        restored = find_restored_fields(info, old, new)
        new = restore_protected_fields(info, old, new)
        if info.kind.is_custom and info.subresource == "scale":
            new = with_managers_after_scale(info, old, new, self._clock.now())
        else:
            new = with_updated_managed_fields(info, old, new, self._clock.now(), restored)
        if found and uid and not info.subresource:  # the validators also see the UID that is refused
            new["metadata"]["uid"] = uid
        return self._writer.replace(transaction, info, Replacement(current, old, new, found), warnings, to_admitted)
