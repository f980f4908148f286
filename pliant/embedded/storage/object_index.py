"""The committed objects in memory, indexed by key, uid and owner, and the recent changes that watches replay."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from operator import attrgetter

from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject
from pliant.errors import Gone

_MAX_NAME = "\U0010ffff"
_BY_VERSION = attrgetter("version")


class ChangeHistory:
    """Changes in the order of their versions; readers pull them, so a slow reader costs nothing.

    All changes after `oldest_version` are kept. A reader that starts before it gets `Gone` and has to list again.
    """

    def __init__(self, oldest_version: int, max_changes: int) -> None:
        self.oldest_version = oldest_version
        self._max_changes = max_changes
        self._changes: list[ObjectChange] = []
        self._waiting: set[asyncio.Future[None]] = set()

    def append(self, change: ObjectChange) -> None:
        """Add a change; drop the oldest changes in bulk when there are too many."""
        self._changes.append(change)
        if len(self._changes) > self._max_changes + self._max_changes // 4:
            surplus = len(self._changes) - self._max_changes
            self.oldest_version = self._changes[surplus - 1].version
            del self._changes[:surplus]

    def changes_since(self, version: int) -> list[ObjectChange]:
        """Return all changes after `version`; raise `Gone` when some of them have been dropped."""
        if version < self.oldest_version:
            raise Gone(410, "Expired", f"too old resource version: {version} ({self.oldest_version})")
        if not self._changes or self._changes[-1].version <= version:
            return []
        return self._changes[bisect_right(self._changes, version, key=_BY_VERSION) :]

    def notify_readers(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_changed(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class ObjectIndex:
    def __init__(self, version: int, max_history: int) -> None:
        self.version = version
        self._max_history = max_history
        self._initial_version = version
        self._objects: dict[ObjectKey, StoredObject] = {}
        self._names: dict[str, list[tuple[str, str]]] = {}
        self._by_uid: dict[str, ObjectKey] = {}
        self._by_owner: dict[str, set[ObjectKey]] = {}
        self._histories: dict[str, ChangeHistory] = {}
        self._lists: dict[str, list[StoredObject]] = {}
        """Complete lists since the last change: many clients list or watch the same resource at once."""

    def get(self, key: ObjectKey) -> StoredObject | None:
        return self._objects.get(key)

    def resources(self) -> tuple[str, ...]:
        """Return every resource that has ever had an object."""
        return tuple(self._names)

    def list_objects(self, resource: str, namespace: str = "") -> Sequence[StoredObject]:
        """Return objects sorted by namespace and name, of one namespace or of all."""
        names = self._names.get(resource, [])
        if namespace:
            names = names[bisect_left(names, (namespace, "")) : bisect_left(names, (namespace, _MAX_NAME))]
            return self._find_objects(resource, names)
        if resource not in self._lists:
            self._lists[resource] = self._find_objects(resource, names)
        return self._lists[resource]

    def has_objects(self, resource: str, namespace: str) -> bool:
        """Return whether a namespace has objects of a resource, in logarithmic time."""
        names = self._names.get(resource)
        if not names:
            return False
        position = bisect_left(names, (namespace, ""))
        return position < len(names) and names[position][0] == namespace

    def _find_objects(self, resource: str, names: Iterable[tuple[str, str]]) -> list[StoredObject]:
        return [self._objects[ObjectKey(resource, *name)] for name in names]

    def list_objects_at(self, version: int, resource: str, namespace: str = "") -> list[StoredObject]:
        """Return the list as it was at an earlier version; raise `Gone` when its changes have been dropped."""
        past: dict[ObjectKey, StoredObject] = {obj.key: obj for obj in self.list_objects(resource, namespace)}
        for change in reversed(self.history(resource).changes_since(version)):
            if namespace and change.after.key.namespace != namespace:
                continue
            if change.before is None:
                past.pop(change.after.key, None)
            else:
                past[change.after.key] = change.before
        return [past[key] for key in sorted(past)]

    def find_key_by_uid(self, uid: str) -> ObjectKey | None:
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> tuple[ObjectKey, ...]:
        """Return the keys of objects with this uid in their ownerReferences, sorted."""
        return tuple(sorted(self._by_owner.get(uid, ())))

    def owner_uids(self) -> tuple[str, ...]:
        return tuple(self._by_owner)

    def history(self, resource: str) -> ChangeHistory:
        found = self._histories.get(resource)
        if found is None:
            found = self._histories[resource] = ChangeHistory(self._initial_version, self._max_history)
        return found

    def load(self, objects: Iterable[StoredObject]) -> None:
        for obj in objects:
            self._index_object(obj)
        self._lists.clear()

    def apply_changes(self, changes: Iterable[ObjectChange]) -> None:
        """Make committed changes visible, then notify watches."""
        changed_resources: set[str] = set()
        for change in changes:
            key = change.after.key
            if change.before is not None:
                self._unindex_object(change.before)
            if change.is_deleted:
                names = self._names[key.resource]
                del names[bisect_left(names, key[1:])]
                del self._objects[key]
            else:
                self._index_object(change.after)
            self.version = change.version
            self.history(key.resource).append(change)
            changed_resources.add(key.resource)
        for resource in sorted(changed_resources):
            self._lists.pop(resource, None)
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
