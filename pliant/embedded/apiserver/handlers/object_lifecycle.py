"""Updates and deletions of stored objects: generations, finalizers, graceful deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import eq
from typing import Any, NamedTuple

from pliant.embedded.apiserver.handlers.whole_numbers import are_same_values, to_stored_numbers
from pliant.embedded.registry.crds import add_cleanup_finalizer
from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectKey, StoredObject, to_stored_object
from pliant.kube.timestamps import format_timestamp

PODS_RESOURCE_KEY = "/pods"
NAMESPACES_RESOURCE_KEY = "/namespaces"
CRDS_RESOURCE_KEY = "apiextensions.k8s.io/customresourcedefinitions"
ENDPOINT_SLICES_RESOURCE_KEY = "discovery.k8s.io/endpointslices"
DEPLOYMENT_REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
DEFAULT_POD_GRACE_SECONDS = 30
FINISHED_POD_PHASES = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace_seconds: int | None = None
    propagation_policy: str = ""
    uid: str | None = None
    resource_version: str | None = None
    is_dry_run: bool = False


def list_finalizers(resource: str, obj: Object) -> list[Any]:
    """Return the finalizers of an object, with those in the spec of a namespace."""
    finalizers = list(obj["metadata"].get("finalizers") or ())
    if resource == NAMESPACES_RESOURCE_KEY:
        finalizers += (obj.get("spec") or {}).get("finalizers") or ()
    return finalizers


def store_if_changed(
    transaction: Transaction, kind: Kind, current: StoredObject, old: Object, new: Object, *, is_status: bool = False
) -> StoredObject:
    """Store an updated object unless nothing changed; increment its generation if more than its status changed."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    are_same = are_same_values if kind.is_custom else eq
    if kind.has_generation and not is_status and not are_same(*(_generation_fields(kind, each) for each in (new, old))):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    if kind.is_custom:  # its generation also counts numbers that are stored as before
        to_stored_numbers(new)
    if are_same(new, {**old, "apiVersion": new["apiVersion"]} if kind.is_custom else old):  # of whatever version
        return current
    return store_or_finish_deletion(transaction, kind.resource_key, new)


def ends_deletion(resource: str, obj: Object) -> bool:
    """Return whether an object is terminating, and neither finalizers nor a grace period keep it."""
    metadata = obj["metadata"]
    is_kept = list_finalizers(resource, obj) or metadata.get("deletionGracePeriodSeconds")
    return bool(metadata.get("deletionTimestamp") and not is_kept)


def store_or_finish_deletion(transaction: Transaction, resource: str, obj: Object) -> StoredObject:
    """Store an object, or remove it if it is terminating without finalizers and grace period."""
    if not ends_deletion(resource, obj):
        return transaction.put(resource, obj)
    metadata = obj["metadata"]
    # Watches receive the last stored state, which still has its finalizers.
    current = transaction.get(ObjectKey(resource, metadata.get("namespace") or "", metadata["name"]))
    if current is None:
        return transaction.remove(resource, obj)
    removed = transaction.remove(resource, current.decode())
    metadata["resourceVersion"] = str(removed.version)
    return to_stored_object(resource, obj)


class DeletionResult(NamedTuple):
    record: StoredObject
    is_removed: bool


def remove_or_mark_terminating(
    transaction: Transaction, current: StoredObject, options: DeleteOptions, now: datetime
) -> DeletionResult:
    """Remove an object, or mark it as terminating if it has finalizers or a grace period."""
    resource, obj = current.key.resource, current.decode()
    metadata = obj["metadata"]
    grace = compute_grace_seconds(resource, obj, options)
    # The policy of a later request replaces that of the first one, but not of pods, which terminate gracefully.
    if not current.is_terminating or resource != PODS_RESOURCE_KEY:
        _set_propagation_finalizer(metadata, options.propagation_policy)
    if resource == CRDS_RESOURCE_KEY and not current.is_terminating:
        add_cleanup_finalizer(metadata)
    # The first deletion of a namespace only marks it, whatever finalizers it has.
    is_marked = current.is_terminating or resource != NAMESPACES_RESOURCE_KEY
    if grace == 0 and is_marked and not list_finalizers(resource, obj):
        last = current.decode()
        if resource == PODS_RESOURCE_KEY:
            _mark_terminating(last["metadata"], 0, now, is_first_request=not current.is_terminating)
            last = transaction.put(resource, last).decode()  # watches see the end of the grace period, too
        return DeletionResult(transaction.remove(resource, last), is_removed=True)
    previous_grace = metadata.get("deletionGracePeriodSeconds")
    if current.is_terminating and (previous_grace is None or grace >= previous_grace):
        is_changed = metadata.get("finalizers") != current.decode()["metadata"].get("finalizers")
        return DeletionResult(transaction.put(resource, obj) if is_changed else current, is_removed=False)
    _mark_terminating(metadata, grace, now, is_first_request=not current.is_terminating)
    if resource == NAMESPACES_RESOURCE_KEY:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        del metadata["deletionGracePeriodSeconds"]  # the deletion of namespaces is a matter of their finalizers
    return DeletionResult(transaction.put(resource, obj), is_removed=False)


def _mark_terminating(metadata: dict[str, Any], grace_seconds: int, now: datetime, *, is_first_request: bool) -> None:
    metadata["deletionTimestamp"] = format_timestamp(now + timedelta(seconds=grace_seconds))
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    if is_first_request and metadata.get("generation"):
        metadata["generation"] += 1


def compute_grace_seconds(resource: str, obj: Object, options: DeleteOptions) -> int:
    """Return the grace period of a deletion, which is 0 for all objects but pods on a node."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource != PODS_RESOURCE_KEY or not spec.get("nodeName") or status.get("phase") in FINISHED_POD_PHASES:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        return DEFAULT_POD_GRACE_SECONDS
    return int(grace) if int(grace) >= 0 else 1


def _set_propagation_finalizer(metadata: dict[str, Any], propagation_policy: str) -> None:
    if not propagation_policy:
        return
    added = {"Foreground": [FOREGROUND_FINALIZER], "Orphan": [ORPHAN_FINALIZER]}.get(propagation_policy, [])
    others = [name for name in metadata.get("finalizers") or () if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    metadata["finalizers"] = others + added
    if not metadata["finalizers"]:
        del metadata["finalizers"]


def _generation_fields(kind: Kind, obj: Object) -> dict[str, Any]:
    """Return the fields of an object whose changes increment its generation."""
    ignored = {"apiVersion", "kind", "metadata", *(("status",) if kind.has_status else ())}
    fields = {field: value for field, value in obj.items() if field not in ignored}
    if kind.resource_key == ENDPOINT_SLICES_RESOURCE_KEY:
        fields["labels"] = obj["metadata"].get("labels")
    if not kind.counts_annotations:
        return fields
    annotations = dict(obj["metadata"].get("annotations") or {})
    annotations.pop(DEPLOYMENT_REVISION_ANNOTATION, None)
    return {**fields, "annotations": annotations}
