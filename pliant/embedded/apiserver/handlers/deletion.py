"""The verbs delete and deletecollection, with their options and preconditions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from pliant.embedded.apiserver.admission.plugins import AdmissionPlugins, Operation
from pliant.embedded.apiserver.handlers.get_list import ObjectFilter, require_known_list_version
from pliant.embedded.apiserver.handlers.list_options import validate_list_options
from pliant.embedded.apiserver.handlers.object_lifecycle import (
    NAMESPACES_RESOURCE_KEY,
    DeleteOptions,
    DeletionResult,
    remove_or_mark_terminating,
)
from pliant.embedded.apiserver.http import errors
from pliant.embedded.apiserver.http.request_body import decode_object_body, object_field
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.http.responses import (
    deletion_success_status,
    encode_list_chunks,
    encode_served_object,
    json_response,
    warning_headers,
)
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import StoredObject
from pliant.errors import ApiError
from pliant.kube.transport.base import Reply
from pliant.runtime.clock import Clock

PROTECTED_BUILTIN_NAMESPACES = ("default", "kube-public", "kube-system")
"""Namespaces that the server creates, and that cannot be deleted."""
_RESOURCES_RETURNED_ON_DELETE = frozenset(
    {"/pods", "/services", "/serviceaccounts", "/namespaces", "/persistentvolumeclaims", "/resourcequotas"}
)
_JOBS = "jobs.batch"
_PROPAGATION_POLICIES = ("Background", "Foreground", "Orphan")


async def delete_object(store: Store, info: RequestInfo, plugins: AdmissionPlugins, clock: Clock) -> Reply:
    """Delete an object, or mark it as terminating if it has finalizers or a grace period."""
    options = parse_delete_options(info, _decode_options_body(info))
    warnings: list[str] = []

    def delete(transaction: Transaction) -> DeletionResult:
        current = info.require_stored_object(transaction)
        require_deletable(info, current, options)
        _validate_deletion(plugins, info, transaction, current, warnings)
        return remove_or_mark_terminating(transaction, current, options, clock.now())

    last, is_removed = await store.run_transaction(delete, dry_run=options.is_dry_run)
    if is_removed and info.kind.resource_key not in _RESOURCES_RETURNED_ON_DELETE:
        return json_response(deletion_success_status(info.kind, info.name, last.uid), headers=warning_headers(warnings))
    return Reply(status=200, body=encode_served_object(info.kind, last), headers=warning_headers(warnings))


async def delete_collection(store: Store, info: RequestInfo, plugins: AdmissionPlugins, clock: Clock) -> Reply:
    """Delete every selected object, and return a list of them as they were before.

    What was deleted before an error stays deleted, as in API servers.
    """
    selection = ObjectFilter.from_request(info)
    validate_list_options(info)
    options = parse_delete_options(info, _decode_options_body(info))
    require_known_list_version(store.committed, info)
    version, records = store.committed.version, store.committed.list_objects(info.kind.resource_key, info.namespace)
    selected = [record for record in records if selection.matches(record)]
    warnings: list[str] = []

    def delete_selected(transaction: Transaction) -> tuple[list[StoredObject], ApiError | None]:
        deleted: list[StoredObject] = []
        for record in selected:
            current = transaction.get(record.key)
            if current is not None and current.uid == record.uid and current.key.name not in _undeletable_names(info):
                try:
                    require_deletable(info, current, options)
                    _validate_deletion(plugins, info, transaction, current, warnings)
                except ApiError as error:
                    return deleted, error
                remove_or_mark_terminating(transaction, current, options, clock.now())
                deleted.append(record)
        return deleted, None

    deleted, error = await store.run_transaction(delete_selected, dry_run=options.is_dry_run)
    if error is not None:
        raise error
    metadata = {"resourceVersion": str(version)}  # that of the list: a watch from there sees the deletions
    body = b"".join(encode_list_chunks(info.kind, deleted, metadata))
    return Reply(status=200, body=body, headers=warning_headers(warnings))


def parse_delete_options(info: RequestInfo, options_body: Mapping[str, Any]) -> DeleteOptions:
    """Return the DeleteOptions of a body; options of the query apply where the body has none."""
    preconditions = object_field(options_body, "preconditions")
    grace = options_body.get("gracePeriodSeconds")
    if grace is None:
        grace = info.query_int("gracePeriodSeconds")
    propagation = _parse_propagation_policy(info, options_body)
    try:
        return DeleteOptions(
            grace_seconds=None if grace is None else int(grace) if int(grace) >= 0 else 1,
            propagation_policy=propagation,
            uid=_read_precondition(preconditions, "uid"),
            resource_version=_read_precondition(preconditions, "resourceVersion"),
            is_dry_run=_is_dry_run(info, options_body),
        )
    except (TypeError, ValueError, msgspec.ValidationError):
        raise errors.bad_request(f"gracePeriodSeconds: Invalid value: {grace!r}: must be an integer") from None


def _read_precondition(preconditions: Mapping[str, Any], field: str) -> str | None:
    """Return the text of a precondition; an empty one is not met by any object."""
    return None if preconditions.get(field) is None else str(preconditions[field])


def _parse_propagation_policy(info: RequestInfo, options_body: Mapping[str, Any]) -> str:
    policy = options_body.get("propagationPolicy") or info.query_text("propagationPolicy")
    orphan = options_body.get("orphanDependents")
    if orphan is None and info.query_text("orphanDependents"):
        orphan = info.query_bool("orphanDependents")
    if policy and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        raise errors.invalid_options("DELETE", errors.invalid_field("propagationPolicy", policy, detail))
    if policy and policy not in _PROPAGATION_POLICIES:
        error = errors.unsupported_value("propagationPolicy", policy, _PROPAGATION_POLICIES)
        raise errors.invalid_options("DELETE", error)
    if not policy and orphan is None and info.kind.qualified_name == _JOBS:
        return "Orphan"  # the default of batch/v1; kubectl always names a policy
    return policy or ("Orphan" if orphan else "")


def require_deletable(info: RequestInfo, current: StoredObject, options: DeleteOptions) -> None:
    """Raise `Forbidden` for a protected namespace, and `Conflict` when a precondition is not met."""
    if info.name in _undeletable_names(info):
        raise errors.forbidden(info.kind, info.name, "this namespace may not be deleted")
    if options.uid is not None and options.uid != current.uid and info.kind.resource_key == NAMESPACES_RESOURCE_KEY:
        detail = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {current.uid}"
        raise errors.conflict(info.kind, current.key.name, detail)
    if options.uid is not None and options.uid != current.uid:
        detail = f"the UID in the precondition ({options.uid}) does not match the UID in record ({current.uid}). "
        raise errors.precondition_failed(
            info.kind, current.key.name, detail + "The object might have been deleted and then recreated"
        )
    if options.resource_version is not None and options.resource_version != str(current.version):
        if info.kind.resource_key == NAMESPACES_RESOURCE_KEY:
            detail = f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            detail += f"ResourceVersion in object meta: {current.version}"
            raise errors.conflict(info.kind, current.key.name, detail)
        detail = f"the ResourceVersion in the precondition ({options.resource_version}) does not match "
        detail += f"the ResourceVersion in record ({current.version}). The object might have been modified"
        raise errors.precondition_failed(info.kind, current.key.name, detail)


def _validate_deletion(
    plugins: AdmissionPlugins, info: RequestInfo, transaction: Transaction, current: StoredObject, warnings: list[str]
) -> None:
    if plugins.are_active(info, transaction):
        old = info.kind.to_served(current.decode())
        plugins.validate(info, transaction, Operation.DELETE, old=old, warnings=warnings)


def _decode_options_body(info: RequestInfo) -> dict[str, Any]:
    return decode_object_body(info.request) if info.request.body else {}


def _is_dry_run(info: RequestInfo, options_body: Mapping[str, Any]) -> bool:
    dry_run = options_body.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        raise errors.invalid_options("DELETE", errors.unsupported_value("dryRun", dry_run, ["All"]))
    return bool(dry_run) or info.is_dry_run


def _undeletable_names(info: RequestInfo) -> Collection[str]:
    return PROTECTED_BUILTIN_NAMESPACES if info.kind.resource_key == "/namespaces" else ()
