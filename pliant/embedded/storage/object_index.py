"""What everybody may see: the committed state of all objects, and the indexes to find them by."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from pliant.embedded.storage.change_history import ChangeHistory
from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject

_MAX_NAME = "\U0010ffff"


class ObjectIndex:
    """Records by key, by uid and by owner, with a history per resource; changed only by `apply`."""

    def __init__(self, version: int, max_history: int) -> None:
        self.version = version
        self._max_history = max_history
        self._initial_version = version
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._names: dict[str, list[tuple[str, str]]] = {}
        self._by_uid: dict[str, ObjectKey] = {}
        self._by_owner: dict[str, set[ObjectKey]] = {}
        self._histories: dict[str, ChangeHistory] = {}

    def get(self, key: ObjectKey) -> StoredObject | None:
        """The present state of one object."""
        return self._objects.get(key)

    def resources(self) -> tuple[str, ...]:
        """Every resource that ever held an object."""
        return tuple(self._names)

    def list_objects(self, resource: str, namespace: str = "") -> list[StoredObject]:
        """Objects by namespace and name, in one namespace or in all."""
        names = self._names.get(resource, [])
        if namespace:
            names = names[bisect_left(names, (namespace, "")) : bisect_left(names, (namespace, _MAX_NAME))]
        return [self._objects[ObjectKey(resource, *name)] for name in names]

    def list_objects_at(self, version: int, resource: str, namespace: str = "") -> list[StoredObject]:
        """The same list as it was at an earlier version; raises `Gone` when that is forgotten."""
        past: dict[ObjectKey, StoredObject] = {record.key: record for record in self.list_objects(resource, namespace)}
        for event in reversed(self.history(resource).changes_since(version)):
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
        return bisect_left(names, (namespace, "")) == bisect_left(names, (namespace, _MAX_NAME))

    def find_key_by_uid(self, uid: str) -> ObjectKey | None:
        """Where the object of this uid is kept, if it still exists."""
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> tuple[ObjectKey, ...]:
        """Objects that name this uid among their owners, in a stable order."""
        return tuple(sorted(self._by_owner.get(uid, ())))

    def owner_uids(self) -> tuple[str, ...]:
        """Every uid somebody names as owner."""
        return tuple(self._by_owner)

    def history(self, resource: str) -> ChangeHistory:
        """The recent past of one resource."""
        found = self._histories.get(resource)
        if found is None:
            found = self._histories[resource] = ChangeHistory(self._initial_version, self._max_history)
        return found

    def load(self, objects: Iterable[StoredObject]) -> None:
        """Fill empty shelves with what was kept on disk."""
        for record in objects:
            self._index_object(record)

    def apply_changes(self, changes: Iterable[ObjectChange]) -> None:
        """Make committed changes visible, then wake those who watch."""
        touched: set[str] = set()
        for event in changes:
            key = event.after.key
            if event.before is not None:
                self._unindex_object(event.before)
            if event.is_deleted:
                names = self._names[key.resource]
                del names[bisect_left(names, key[1:])]
                del self._objects[key]
            else:
                self._index_object(event.after)
            self.version = event.version
            self.history(key.resource).append(event)
            touched.add(key.resource)
        for resource in sorted(touched):
            self._histories[resource].notify_readers()

    def _index_object(self, obj: StoredObject) -> None:
        key = obj.key
        if key not in self._objects:
            names = self._names.setdefault(key.resource, [])
            insort(names, (key.namespace, key.name))
        self._objects[key] = obj
        self._by_uid[obj.uid] = key
        for owner in obj.owner_uids:
            self._by_owner.setdefault(owner, set()).add(key)

    def _unindex_object(self, obj: StoredObject) -> None:
        self._by_uid.pop(obj.uid, None)
        for owner in obj.owner_uids:
            dependents = self._by_owner.get(owner)
            if dependents is not None:
                dependents.discard(obj.key)
                if not dependents:
                    del self._by_owner[owner]
