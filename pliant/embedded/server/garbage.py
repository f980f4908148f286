"""Objects go when what they belong to is gone: owners, namespaces, definitions. Driven by changes alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pliant.embedded.catalog.crdrules import CLEANUP
from pliant.embedded.server.admission import CRDS
from pliant.embedded.server.lifecycle import FOREGROUND, NAMESPACES, ORPHAN, DeleteOptions, delete, keep_or_release
from pliant.embedded.storage.records import Event, Key, Object, Record
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import ServerError
from pliant.runtime.clock import Clock

GROUP = 256
"""Objects looked at in one write: enough to share a commit, few enough not to hold up others."""

RETRY_SECONDS = 1.0

_BACKGROUND = DeleteOptions(propagation="Background")
_PLAIN = DeleteOptions()


class GarbageCollector:
    """Looks again at an object whenever something it depends on, or that depends on it, has changed.

    Each look is a decision on the newest state, so looking too often is harmless; what a restart forgets, the
    first look at everything finds again.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._visible = store.visible
        self._clock = clock
        self._suspects: dict[Key, None] = {}
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        self._store.listen(self._notice)
        self._suspect_everything()
        while True:
            await self._woken.wait()
            while self._suspects:
                batch = list(self._suspects)[:GROUP]
                for key in batch:
                    del self._suspects[key]
                await self._look_at(batch)
            self._woken.clear()

    async def _look_at(self, batch: Sequence[Key]) -> None:
        try:
            await self._store.write(lambda transaction: self._look(transaction, batch))
        except ServerError:
            # Nothing could be kept, a full disk perhaps: it is no reason to forget what has to go.
            self._suspect(*batch)
            await asyncio.sleep(RETRY_SECONDS)

    def _suspect(self, *keys: Key) -> None:
        self._suspects.update(dict.fromkeys(keys))
        if self._suspects:
            self._woken.set()

    def _suspect_everything(self) -> None:
        for uid in self._visible.owner_uids():
            self._suspect(*self._visible.dependents(uid))
        for resource in self._visible.resources():
            self._suspect(*(record.key for record in self._visible.listing(resource) if record.leaving))

    def _notice(self, events: Sequence[Event]) -> None:
        for event in events:
            record = event.after
            if event.gone:
                self._suspect(*self._visible.dependents(record.uid))
                self._suspect_leaving_homes(record)
            elif record.leaving or any(self._lacks(record, uid) for uid in record.owners):
                self._suspect(record.key)

    def _lacks(self, dependent: Record, uid: str) -> bool:
        key = self._visible.find_uid(uid)
        return key is None or key.namespace not in ("", dependent.key.namespace)

    def _suspect_leaving_homes(self, gone: Record) -> None:
        """What waited for an object to go: its owners, its namespace, its definition."""
        owners = (self._visible.find_uid(uid) for uid in gone.owners)
        group, _, plural = gone.key.resource.partition("/")
        homes = [Key(NAMESPACES, "", gone.key.namespace), Key(CRDS, "", f"{plural}.{group}")]
        for key in (*(owner for owner in owners if owner is not None), *homes):
            found = self._visible.get(key)
            if found is not None and found.leaving:
                self._suspect(key)

    def _look(self, transaction: Transaction, batch: Sequence[Key]) -> None:
        for key in batch:
            record = transaction.get(key)
            if record is None:
                continue
            if record.leaving:
                self._help_leave(transaction, record)
                record = transaction.get(key)
            if record is not None and record.owners:
                self._check_owners(transaction, record)

    def _check_owners(self, transaction: Transaction, record: Record) -> None:
        obj = record.decode()
        references = obj["metadata"].get("ownerReferences") or []
        owners = {reference["uid"]: self._owner(record, reference) for reference in references}
        waiting = {uid for uid, owner in owners.items() if owner is not None and _waits_for_dependents(owner)}
        solid = {uid for uid, owner in owners.items() if owner is not None} - waiting
        if len(solid) == len(owners):
            return
        if solid:
            _set_list(obj["metadata"], "ownerReferences", [one for one in references if one["uid"] in solid])
            keep_or_release(transaction, record.key.resource, obj)
        elif not record.leaving:
            self._collect(transaction, record, obj, has_waiting_owner=bool(waiting))

    def _collect(self, transaction: Transaction, record: Record, obj: Object, *, has_waiting_owner: bool) -> None:
        """Delete a dependent: the way its finalizers ask for, or depth first when its owner waits for it."""
        finalizers = obj["metadata"].get("finalizers") or ()
        options = _BACKGROUND
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            options = _PLAIN
        elif has_waiting_owner and self._visible.dependents(record.uid):
            options = DeleteOptions(propagation="Foreground")
        delete(transaction, record, options, self._clock.now())

    def _owner(self, dependent: Record, reference: dict[str, Any]) -> Record | None:
        """The owner a reference means, if it lives where the dependent may be owned from."""
        key = self._visible.find_uid(reference["uid"])
        if key is None or self._lacks(dependent, reference["uid"]) or key.name != reference.get("name"):
            return None
        return self._visible.get(key)

    def _help_leave(self, transaction: Transaction, record: Record) -> None:
        obj = record.decode()
        finalizers = obj["metadata"].get("finalizers") or []
        if ORPHAN in finalizers:
            self._let_go(transaction, record)
            self._drop_finalizer(transaction, record, ORPHAN)
        elif FOREGROUND in finalizers:
            self._leave_last(transaction, record)
        elif record.key.resource == NAMESPACES and (obj.get("spec") or {}).get("finalizers"):
            self._empty_namespace(transaction, record, obj)
        elif record.key.resource == CRDS and CLEANUP in finalizers:
            self._empty_definition(transaction, record, obj)

    def _let_go(self, transaction: Transaction, owner: Record) -> None:
        for key in self._visible.dependents(owner.uid):
            dependent = transaction.get(key)
            if dependent is not None and owner.uid in dependent.owners:
                obj = dependent.decode()
                references = [one for one in obj["metadata"]["ownerReferences"] if one["uid"] != owner.uid]
                _set_list(obj["metadata"], "ownerReferences", references)
                keep_or_release(transaction, key.resource, obj)

    def _leave_last(self, transaction: Transaction, owner: Record) -> None:
        dependents = [transaction.get(key) for key in self._visible.dependents(owner.uid)]
        living = [dependent for dependent in dependents if dependent is not None]
        if not any(_blocks(dependent, owner.uid) for dependent in living):
            self._drop_finalizer(transaction, owner, FOREGROUND)
        self._suspect(*(dependent.key for dependent in living if not dependent.leaving))

    def _empty_namespace(self, transaction: Transaction, record: Record, namespace: Object) -> None:
        name = record.key.name
        content = [
            inner for resource in self._visible.resources() for inner in self._visible.listing(resource, name)
        ]
        if content:
            self._delete_some(transaction, record, content)
            return
        namespace["spec"]["finalizers"] = []
        keep_or_release(transaction, NAMESPACES, namespace)

    def _empty_definition(self, transaction: Transaction, record: Record, crd: Object) -> None:
        content = self._visible.listing(f"{crd['spec']['group']}/{crd['spec']['names']['plural']}")
        if content:
            self._delete_some(transaction, record, content)
            return
        self._drop_finalizer(transaction, record, CLEANUP)

    def _delete_some(self, transaction: Transaction, home: Record, content: Sequence[Record]) -> None:
        left = [seen.key for seen in content if not seen.leaving]
        for key in left[:GROUP]:
            current = transaction.get(key)
            if current is not None and not current.leaving:
                delete(transaction, current, _BACKGROUND, self._clock.now())
        if len(left) > GROUP:
            self._suspect(home.key)

    def _drop_finalizer(self, transaction: Transaction, record: Record, finalizer: str) -> None:
        current = transaction.get(record.key)
        if current is not None:
            obj = current.decode()
            left = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
            _set_list(obj["metadata"], "finalizers", left)
            keep_or_release(transaction, record.key.resource, obj)


def _waits_for_dependents(owner: Record) -> bool:
    return owner.leaving and FOREGROUND in (owner.decode()["metadata"].get("finalizers") or ())


def _blocks(dependent: Record, uid: str) -> bool:
    references = dependent.decode()["metadata"].get("ownerReferences") or ()
    return any(one["uid"] == uid and one.get("blockOwnerDeletion") for one in references)


def _set_list(metadata: dict[str, Any], field: str, items: list[Any]) -> None:
    metadata[field] = items
    if not items:
        del metadata[field]
