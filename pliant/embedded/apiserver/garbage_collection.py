"""The garbage collector, which deletes the content of deleted owners, namespaces and CRDs, and the expiry of events."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from pliant.embedded.apiserver.admission.admission import CRDS_RESOURCE_KEY
from pliant.embedded.apiserver.handlers.object_lifecycle import (
    FOREGROUND_FINALIZER,
    NAMESPACES_RESOURCE_KEY,
    ORPHAN_FINALIZER,
    DeleteOptions,
    remove_or_mark_terminating,
    store_or_finish_deletion,
)
from pliant.embedded.registry.crds import CRD_CLEANUP_FINALIZER
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import Object, ObjectChange, ObjectKey, StoredObject
from pliant.errors import ServerError
from pliant.runtime.clock import Clock

MAX_GC_BATCH_OBJECTS = 256
"""The number of objects per write: enough to share a commit, few enough not to delay other writes."""
GC_RETRY_SECONDS = 1.0
EVENTS_RESOURCE_KEY = "/events"
EVENT_TTL_SECONDS = 3600.0
_BACKGROUND_DELETE = DeleteOptions(propagation_policy="Background")


class GarbageCollector:
    """Checks an object whenever one of its owners or dependents has changed.

    Each check uses the newest state, so that a superfluous check is harmless. After a restart, all objects with
    owners and all terminating objects are checked.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._index = store.committed
        self._clock = clock
        self._queue: dict[ObjectKey, None] = {}
        self._wake = asyncio.Event()

    async def run(self) -> None:
        self._store.add_listener(self._on_commit)
        self._enqueue_all()
        while True:
            await self._wake.wait()
            while self._queue:
                batch = list(self._queue)[:MAX_GC_BATCH_OBJECTS]
                for key in batch:
                    del self._queue[key]
                await self._process_batch(batch)
            self._wake.clear()

    async def _process_batch(self, batch: Sequence[ObjectKey]) -> None:
        try:
            await self._store.run_transaction(lambda transaction: self._collect_batch(transaction, batch))
        except ServerError:
            # The store cannot write, for example because the disk is full.
            self._enqueue(*batch)
            await asyncio.sleep(GC_RETRY_SECONDS)

    def _enqueue(self, *keys: ObjectKey) -> None:
        self._queue.update(dict.fromkeys(keys))
        if self._queue:
            self._wake.set()

    def _enqueue_all(self) -> None:
        for uid in self._index.owner_uids():
            self._enqueue(*self._index.dependents(uid))
        for resource in self._index.resources():
            self._enqueue(*(record.key for record in self._index.list_objects(resource) if record.is_terminating))

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            record = change.after
            if change.is_deleted:
                self._enqueue(*self._index.dependents(record.uid))
                self._enqueue_terminating_parents(record)
            elif record.is_terminating or any(self._is_owner_missing(record, uid) for uid in record.owner_uids):
                self._enqueue(record.key)

    def _is_owner_missing(self, dependent: StoredObject, owner_uid: str) -> bool:
        key = self._index.find_key_by_uid(owner_uid)
        return key is None or key.namespace not in ("", dependent.key.namespace)

    def _enqueue_terminating_parents(self, removed: StoredObject) -> None:
        """Enqueue the owners, the namespace and the CRD of a removed object, if they are terminating."""
        owners = [self._index.find_key_by_uid(uid) for uid in removed.owner_uids]
        group, _, plural = removed.key.resource.partition("/")
        parents = [
            *owners,
            ObjectKey(NAMESPACES_RESOURCE_KEY, "", removed.key.namespace),
            ObjectKey(CRDS_RESOURCE_KEY, "", f"{plural}.{group}"),
        ]
        for key in parents:
            parent = self._index.get(key) if key is not None else None
            if parent is not None and parent.is_terminating:
                self._enqueue(parent.key)

    def _collect_batch(self, transaction: Transaction, batch: Sequence[ObjectKey]) -> None:
        for key in batch:
            record = transaction.get(key)
            if record is None:
                continue
            if record.is_terminating:
                self._process_terminating(transaction, record)
                record = transaction.get(key)
            if record is not None and record.owner_uids:
                self._check_owners(transaction, record)

    def _check_owners(self, transaction: Transaction, record: StoredObject) -> None:
        obj = record.decode()
        references = obj["metadata"].get("ownerReferences") or []
        owners = {reference["uid"]: self._find_owner(record, reference) for reference in references}
        waiting = {uid for uid, owner in owners.items() if owner is not None and _waits_for_dependents(owner)}
        remaining = {uid for uid, owner in owners.items() if owner is not None} - waiting
        if len(remaining) == len(owners):
            return
        if remaining:
            kept = [reference for reference in references if reference["uid"] in remaining]
            _set_or_remove_list(obj["metadata"], "ownerReferences", kept)
            store_or_finish_deletion(transaction, record.key.resource, obj)
        elif not record.is_terminating:
            self._delete_dependent(transaction, record, obj, has_waiting_owner=bool(waiting))

    def _delete_dependent(
        self, transaction: Transaction, record: StoredObject, obj: Object, *, has_waiting_owner: bool
    ) -> None:
        """Delete a dependent as its finalizers require, or in the foreground if its owner waits for it."""
        finalizers = obj["metadata"].get("finalizers") or ()
        options = _BACKGROUND_DELETE
        if ORPHAN_FINALIZER in finalizers or FOREGROUND_FINALIZER in finalizers:
            options = DeleteOptions()
        elif has_waiting_owner and self._index.dependents(record.uid):
            options = DeleteOptions(propagation_policy="Foreground")
        remove_or_mark_terminating(transaction, record, options, self._clock.now())

    def _find_owner(self, dependent: StoredObject, reference: dict[str, Any]) -> StoredObject | None:
        """Return the owner of a reference if it exists in the same namespace or has no namespace."""
        key = self._index.find_key_by_uid(reference["uid"])
        if key is None or self._is_owner_missing(dependent, reference["uid"]) or key.name != reference.get("name"):
            return None
        return self._index.get(key)

    def _process_terminating(self, transaction: Transaction, record: StoredObject) -> None:
        obj = record.decode()
        finalizers = obj["metadata"].get("finalizers") or []
        if ORPHAN_FINALIZER in finalizers:
            self._orphan_dependents(transaction, record)
            self._remove_finalizer(transaction, record, ORPHAN_FINALIZER)
        elif FOREGROUND_FINALIZER in finalizers:
            self._process_foreground_deletion(transaction, record)
        elif record.key.resource == NAMESPACES_RESOURCE_KEY:
            self._delete_namespace_content(transaction, record, obj)
        elif record.key.resource == CRDS_RESOURCE_KEY and CRD_CLEANUP_FINALIZER in finalizers:
            self._delete_custom_resources(transaction, record, obj)

    def _orphan_dependents(self, transaction: Transaction, owner: StoredObject) -> None:
        for key in self._index.dependents(owner.uid):
            dependent = transaction.get(key)
            if dependent is not None and owner.uid in dependent.owner_uids:
                obj = dependent.decode()
                references = [each for each in obj["metadata"]["ownerReferences"] if each["uid"] != owner.uid]
                _set_or_remove_list(obj["metadata"], "ownerReferences", references)
                store_or_finish_deletion(transaction, key.resource, obj)

    def _process_foreground_deletion(self, transaction: Transaction, owner: StoredObject) -> None:
        dependents = [transaction.get(key) for key in self._index.dependents(owner.uid)]
        existing = [dependent for dependent in dependents if dependent is not None]
        if not any(_blocks_owner_deletion(dependent, owner.uid) for dependent in existing):
            self._remove_finalizer(transaction, owner, FOREGROUND_FINALIZER)
        self._enqueue(*(dependent.key for dependent in existing if not dependent.is_terminating))

    def _delete_namespace_content(self, transaction: Transaction, record: StoredObject, namespace: Object) -> None:
        resources, name = self._index.resources(), record.key.name
        content = [each for resource in resources for each in self._index.list_objects(resource, name)]
        if content:
            self._delete_batch(transaction, record, content)
            return
        others = [each for each in namespace["spec"].get("finalizers") or () if each != "kubernetes"]
        if namespace["spec"].get("finalizers") and namespace["spec"]["finalizers"] == others:
            return  # other programs remove them
        namespace["spec"]["finalizers"] = others
        store_or_finish_deletion(transaction, NAMESPACES_RESOURCE_KEY, namespace)

    def _delete_custom_resources(self, transaction: Transaction, record: StoredObject, crd: Object) -> None:
        content = self._index.list_objects(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
        if content:
            self._delete_batch(transaction, record, content)
            return
        self._remove_finalizer(transaction, record, CRD_CLEANUP_FINALIZER)

    def _delete_batch(self, transaction: Transaction, parent: StoredObject, content: Sequence[StoredObject]) -> None:
        remaining = [each.key for each in content if not each.is_terminating]
        for key in remaining[:MAX_GC_BATCH_OBJECTS]:
            current = transaction.get(key)
            if current is not None and not current.is_terminating:
                remove_or_mark_terminating(transaction, current, _BACKGROUND_DELETE, self._clock.now())
        if len(remaining) > MAX_GC_BATCH_OBJECTS:
            self._enqueue(parent.key)

    def _remove_finalizer(self, transaction: Transaction, record: StoredObject, finalizer: str) -> None:
        current = transaction.get(record.key)
        if current is not None:
            obj = current.decode()
            finalizers = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
            _set_or_remove_list(obj["metadata"], "finalizers", finalizers)
            store_or_finish_deletion(transaction, record.key.resource, obj)


def _waits_for_dependents(owner: StoredObject) -> bool:
    return owner.is_terminating and FOREGROUND_FINALIZER in (owner.decode()["metadata"].get("finalizers") or ())


def _blocks_owner_deletion(dependent: StoredObject, owner_uid: str) -> bool:
    references = dependent.decode()["metadata"].get("ownerReferences") or ()
    return any(each["uid"] == owner_uid and each.get("blockOwnerDeletion") for each in references)


def _set_or_remove_list(metadata: dict[str, Any], field: str, items: list[Any]) -> None:
    metadata[field] = items
    if not items:
        del metadata[field]


class EventExpiry:
    """Deletes Event objects that were not updated for an hour."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._expires_at: dict[ObjectKey, float] = {}  # in the order of expiry
        self._wake = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        self._store.add_listener(self._on_commit)
        self._schedule_expiry(record.key for record in self._store.committed.list_objects(EVENTS_RESOURCE_KEY))
        while True:
            await self._wake.wait()
            while self._expires_at:
                await asyncio.sleep(max(next(iter(self._expires_at.values())) - loop.time(), 0))
                await self._delete_expired([key for key, end in self._expires_at.items() if end <= loop.time()])
            self._wake.clear()

    def _on_commit(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            if change.after.key.resource == EVENTS_RESOURCE_KEY:
                self._expires_at.pop(change.after.key, None)
                if not change.is_deleted:
                    self._schedule_expiry([change.after.key])

    def _schedule_expiry(self, keys: Iterable[ObjectKey]) -> None:
        end = asyncio.get_running_loop().time() + EVENT_TTL_SECONDS
        self._expires_at.update(dict.fromkeys(keys, end))
        if self._expires_at:
            self._wake.set()

    async def _delete_expired(self, expired: Sequence[ObjectKey]) -> None:
        def delete_all(transaction: Transaction) -> None:
            for key in expired:
                current = transaction.get(key)
                if current is not None:
                    transaction.remove(EVENTS_RESOURCE_KEY, current.decode())

        try:
            await self._store.run_transaction(delete_all)
        except ServerError:
            # The store cannot write, for example because the disk is full: try again after another TTL.
            self._schedule_expiry(expired)
