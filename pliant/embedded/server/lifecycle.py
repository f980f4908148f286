"""How stored objects change and go: generations, finalizers, graceful deletion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pliant.embedded.catalog.kinds import Kind
from pliant.embedded.storage.records import Object, Record
from pliant.embedded.storage.store import Transaction

PODS = "/pods"
NAMESPACES = "/namespaces"
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFAULT_GRACE = 30

_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """How an object is to go."""

    grace: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""
    is_dry_run: bool = False


def timestamp(now: datetime) -> str:
    """A moment as objects carry it."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def holds(resource: str, obj: Object) -> list[Any]:
    """What keeps an object in being after its deletion was asked for."""
    finalizers = list(obj["metadata"].get("finalizers") or ())
    if resource == NAMESPACES:
        finalizers += (obj.get("spec") or {}).get("finalizers") or ()
    return finalizers


def keep(transaction: Transaction, kind: Kind, current: Record, old: Object, changed: Object) -> Record:
    """Store what became of an object: nothing when it is the same, its end when nothing holds it any longer."""
    changed["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    if changed == old:
        return current
    if kind.has_generation and _wanted(kind, changed) != _wanted(kind, old):
        changed["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return keep_or_release(transaction, kind.key, changed)


def keep_or_release(transaction: Transaction, resource: str, changed: Object) -> Record:
    """Store a changed object, unless it was waiting to go and is free to."""
    metadata = changed["metadata"]
    is_free = not holds(resource, changed) and not metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") and is_free:
        return transaction.remove(resource, changed)
    return transaction.put(resource, changed)


class Deletion(NamedTuple):
    """What a deletion came to: the last state of the object, and whether it is gone."""

    record: Record
    is_gone: bool


def delete(transaction: Transaction, current: Record, options: DeleteOptions, now: datetime) -> Deletion:
    """Remove an object, or mark it as leaving until nothing holds it."""
    resource = current.key.resource
    obj = current.decode()
    metadata = obj["metadata"]
    grace = grace_period(resource, obj, options)
    if not current.leaving:
        _choose_propagation(metadata, options.propagation)
    if grace == 0 and not holds(resource, obj):
        last = current.decode()
        if resource == PODS:
            _mark_leaving(last["metadata"], 0, now, is_news=not current.leaving)
        return Deletion(transaction.remove(resource, last), is_gone=True)
    known = metadata.get("deletionGracePeriodSeconds")
    if current.leaving and (known is None or grace >= known):
        return Deletion(current, is_gone=False)
    _mark_leaving(metadata, grace, now, is_news=not current.leaving)
    if resource == NAMESPACES:
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
    return Deletion(transaction.put(resource, obj), is_gone=False)


def _mark_leaving(metadata: dict[str, Any], grace: int, now: datetime, *, is_news: bool) -> None:
    metadata["deletionTimestamp"] = timestamp(now + timedelta(seconds=grace))
    metadata["deletionGracePeriodSeconds"] = grace
    if is_news and metadata.get("generation"):
        metadata["generation"] += 1


def grace_period(resource: str, obj: Object, options: DeleteOptions) -> int:
    """Seconds a node has to stop what runs; only a pod that may be running takes any."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if resource != PODS or not spec.get("nodeName") or status.get("phase") in _FINISHED:
        return 0
    if options.grace is not None:
        return options.grace
    stated = spec.get("terminationGracePeriodSeconds")
    return DEFAULT_GRACE if stated is None else max(int(stated), 0)


def _choose_propagation(metadata: dict[str, Any], propagation: str) -> None:
    if not propagation:
        return
    chosen = {"Foreground": [FOREGROUND], "Orphan": [ORPHAN]}.get(propagation, [])
    others = [name for name in metadata.get("finalizers") or () if name not in (FOREGROUND, ORPHAN)]
    metadata["finalizers"] = others + chosen
    if not metadata["finalizers"]:
        del metadata["finalizers"]


def _wanted(kind: Kind, obj: Object) -> dict[str, Any]:
    """What a user asked for, without what the server and controllers noted about it."""
    noted = {"apiVersion", "kind", "metadata", *(("status",) if kind.has_status else ())}
    return {field: value for field, value in obj.items() if field not in noted}
