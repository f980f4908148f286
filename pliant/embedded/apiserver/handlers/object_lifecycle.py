"""How stored objects change and go: generations, finalizers, graceful deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pliant.embedded.registry.kinds import Kind
from pliant.embedded.storage.store import Transaction
from pliant.embedded.storage.stored_objects import Object, StoredObject

PODS = "/pods"
NAMESPACES = "/namespaces"
FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"
DEFAULT_GRACE_SECONDS = 30

_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How an object is to go."""

    grace_seconds: int | None = None
    propagation_policy: str = ""
    uid: str = ""
    resource_version: str = ""
    is_dry_run: bool = False


def format_timestamp(now: datetime) -> str:
    """A moment as objects carry it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def list_finalizers(resource: str, obj: Object) -> list[Any]:
    """What keeps an object in being after its deletion was asked for."""
    finalizers = list(obj["metadata"].get("finalizers") or ())
    if resource == NAMESPACES:
        finalizers += (obj.get("spec") or {}).get("finalizers") or ()
    return finalizers


def update_stored(
    transaction: Transaction, kind: Kind, current: StoredObject, old: Object, new: Object
) -> StoredObject:
    """Store what became of an object: nothing when it is the same, its end when nothing holds it any longer."""
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if new == old:
        return current
    if kind.has_generation and _generation_fields(kind, new) != _generation_fields(kind, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return store_or_remove(transaction, kind.resource_key, new)


def store_or_remove(transaction: Transaction, resource: str, obj: Object) -> StoredObject:
    """Store a changed object, unless it was waiting to go and is free to."""
    metadata = obj["metadata"]
    is_free = not list_finalizers(resource, obj) and not metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") and is_free:
        return transaction.remove(resource, obj)
    return transaction.put(resource, obj)


class DeletionResult(NamedTuple):
    """What a deletion came to: the last state of the object, and whether it is gone."""

    record: StoredObject
    is_removed: bool


def delete_record(
    transaction: Transaction, current: StoredObject, options: DeleteOptions, now: datetime
) -> DeletionResult:
    """Remove an object, or mark it as leaving until nothing holds it."""
    resource = current.key.resource
    obj = current.decode()
    metadata = obj["metadata"]
    grace = compute_grace_seconds(resource, obj, options)
    if not current.is_terminating:
        _set_propagation_finalizer(metadata, options.propagation_policy)
    if grace == 0 and not list_finalizers(resource, obj):
        last = current.decode()
        if resource == PODS:
            _mark_terminating(last["metadata"], 0, now, is_first_request=not current.is_terminating)
        return DeletionResult(transaction.remove(resource, last), is_removed=True)
    known = metadata.get("deletionGracePeriodSeconds")
    if current.is_terminating and (known is None or grace >= known):
        return DeletionResult(current, is_removed=False)
    _mark_terminating(metadata, grace, now, is_first_request=not current.is_terminating)
    if resource == NAMESPACES:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return DeletionResult(transaction.put(resource, obj), is_removed=False)


def _mark_terminating(metadata: dict[str, Any], grace_seconds: int, now: datetime, *, is_first_request: bool) -> None:
    metadata["deletionTimestamp"] = format_timestamp(now + timedelta(seconds=grace_seconds))
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    if is_first_request and metadata.get("generation"):
        metadata["generation"] += 1


def compute_grace_seconds(resource: str, obj: Object, options: DeleteOptions) -> int:
    """Seconds a node has to stop what runs; only a pod that may be running takes any."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource != PODS or not spec.get("nodeName") or status.get("phase") in _FINISHED_PHASES:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    stated = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE_SECONDS if stated is None else max(int(stated), 0)


def _set_propagation_finalizer(metadata: dict[str, Any], propagation_policy: str) -> None:
    if not propagation_policy:
        return
    chosen = {"Foreground": [FOREGROUND_FINALIZER], "Orphan": [ORPHAN_FINALIZER]}.get(propagation_policy, [])
    others = [name for name in metadata.get("finalizers") or () if name not in (FOREGROUND_FINALIZER, ORPHAN_FINALIZER)]
    metadata["finalizers"] = others + chosen
    if not metadata["finalizers"]:
        del metadata["finalizers"]


def _generation_fields(kind: Kind, obj: Object) -> dict[str, Any]:
    """What a user asked for, without what the server and controllers noted about it."""
    noted = {"apiVersion", "kind", "metadata", *(("status",) if kind.has_status else ())}
    return {field: value for field, value in obj.items() if field not in noted}
