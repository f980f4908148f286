"""What everybody may see: the committed state of all objects, and the indexes to find them by."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from pliant.embedded.storage.history import History
from pliant.embedded.storage.records import Event, Key, Record

_AFTER_ANY_NAME = "\U0010ffff"


class Shelves:
    """Records by key, by uid and by owner, with a history per resource; changed only by `apply`."""

    def __init__(self, version: int, keep: int) -> None:
        self.version = version
        self._keep = keep
        self._opened_at = version
        self._records: dict[Key, Record] = {}
        self._names: dict[str, list[tuple[str, str]]] = {}
        self._by_uid: dict[str, Key] = {}
        self._by_owner: dict[str, set[Key]] = {}
        self._histories: dict[str, History] = {}

    def get(self, key: Key) -> Record | None:
        """The present state of one object."""
        return self._records.get(key)

    def resources(self) -> tuple[str, ...]:
        """Every resource that ever held an object."""
        return tuple(self._names)

    def listing(self, resource: str, namespace: str = "") -> list[Record]:
        """Objects by namespace and name, in one namespace or in all."""
        names = self._names.get(resource, [])
        if namespace:
            names = names[bisect_left(names, (namespace, "")) : bisect_left(names, (namespace, _AFTER_ANY_NAME))]
        return [self._records[Key(resource, *name)] for name in names]

    def listing_at(self, version: int, resource: str, namespace: str = "") -> list[Record]:
        """The same list as it was at an earlier version; raises `Gone` when that is forgotten."""
        past: dict[Key, Record] = {record.key: record for record in self.listing(resource, namespace)}
        for event in reversed(self.history(resource).since(version)):
            if namespace and event.after.key.namespace != namespace:
                continue
            if event.before is None:
                past.pop(event.after.key, None)
            else:
                past[event.after.key] = event.before
        return [past[key] for key in sorted(past)]

    def is_empty(self, resource: str, namespace: str = "") -> bool:
        """Whether a resource has no object, in one namespace or at all."""
        names = self._names.get(resource, [])
        if not namespace:
            return not names
        return bisect_left(names, (namespace, "")) == bisect_left(names, (namespace, _AFTER_ANY_NAME))

    def find_uid(self, uid: str) -> Key | None:
        """Where the object of this uid is kept, if it still exists."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> tuple[Key, ...]:
        """Objects that name this uid among their owners, in a stable order."""
        return tuple(sorted(self._by_owner.get(uid, ())))

    def owner_uids(self) -> tuple[str, ...]:
        """Every uid somebody names as owner."""
        return tuple(self._by_owner)

    def history(self, resource: str) -> History:
        """The recent past of one resource."""
        found = self._histories.get(resource)
        if found is None:
            found = self._histories[resource] = History(self._opened_at, self._keep)
        return found

    def load(self, records: Iterable[Record]) -> None:
        """Fill empty shelves with what was kept on disk."""
        for record in records:
            self._place(record)

    def apply(self, events: Iterable[Event]) -> None:
        """Make committed changes visible, then wake those who watch."""
        touched: set[str] = set()
        for event in events:
            key = event.after.key
            if event.before is not None:
                self._unindex(event.before)
            if event.gone:
                names = self._names[key.resource]
                del names[bisect_left(names, key[1:])]
                del self._records[key]
            else:
                self._place(event.after)
            self.version = event.version
            self.history(key.resource).append(event)
            touched.add(key.resource)
        for resource in sorted(touched):
            self._histories[resource].wake()

    def _place(self, record: Record) -> None:
        key = record.key
        if key not in self._records:
            names = self._names.setdefault(key.resource, [])
            insort(names, (key.namespace, key.name))
        self._records[key] = record
        self._by_uid[record.uid] = key
        for owner in record.owners:
            self._by_owner.setdefault(owner, set()).add(key)

    def _unindex(self, record: Record) -> None:
        self._by_uid.pop(record.uid, None)
        for owner in record.owners:
            dependents = self._by_owner.get(owner)
            if dependents is not None:
                dependents.discard(record.key)
                if not dependents:
                    del self._by_owner[owner]
