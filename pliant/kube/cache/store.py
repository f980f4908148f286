"""A local store of the objects of one resource, updated by watch events and by the client's own writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from pliant.kube.objects import ObjectKey, object_identity

T = TypeVar("T")

Indexer = Callable[[T], Iterable[str]]
OnChange = Callable[[T | None, T | None], None]


class ObjectStore(Generic[T]):
    """Objects of one resource with indexes over them.

    Watch events arrive in order and are complete up to `resource_version`. The client's own writes may be ahead of
    them: `apply_own_write` and `apply_own_deletion` apply them at once, and older events do not undo them. Callers must
    not modify objects. An indexer must return the same keys for the same object.
    """

    def __init__(self, indexes: Mapping[str, Indexer[T]] | None = None, on_change: OnChange[T] | None = None) -> None:
        self.resource_version = 0  # all changes up to this version have been applied
        self._objects: dict[ObjectKey, T] = {}
        self._indexers = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[ObjectKey, T]]] = {index: {} for index in self._indexers}
        self._on_change = on_change
        self._tombstones: dict[ObjectKey, tuple[str, int]] = {}
        """Uid and last known version of objects that this client deleted, until their DELETED event arrives."""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """Return an object; the namespace of a cluster-scoped object is ''."""
        return self._objects.get((namespace, name))

    def all(self) -> tuple[T, ...]:
        return tuple(self._objects.values())

    def by_index(self, index: str, key: str) -> tuple[T, ...]:
        return tuple(self._indexes[index].get(key, {}).values())

    def apply_own_write(self, obj: T) -> None:
        """Apply the response of the client's own write of an object that matches the store's selector."""
        version = object_identity(obj).version
        # The watch has already reported all changes up to its version; an older write could restore a deleted object.
        if version > self.resource_version:
            self._apply_if_newer(obj)

    def apply_own_deletion(self, namespace: str, name: str, uid: str) -> None:
        """Apply a deletion that the server confirmed; later events of this uid are ignored."""
        key = (namespace, name)
        known = self._objects.get(key)
        if known is not None:
            _, known_uid, version = object_identity(known)
            if known_uid == uid:
                self._tombstones[key] = (uid, version)
                self._drop(key)

    def apply_watched_write(self, obj: T) -> None:
        version = object_identity(obj).version
        if version >= self.resource_version:
            self.resource_version = version
            self._apply_if_newer(obj)

    def apply_watched_deletion(self, obj: T) -> None:
        key, uid, version = object_identity(obj)
        self.resource_version = max(self.resource_version, version)
        if self._tombstones.get(key, ("", 0))[0] == uid:
            del self._tombstones[key]
        known = self._objects.get(key)
        known_identity = None if known is None else object_identity(known)
        # A newer version is known if the object left the selection and the client's own write brought it back.
        if known_identity is not None and known_identity.uid == uid and known_identity.version <= version:
            self._drop(key)

    def advance_resource_version(self, version: int) -> None:
        self.resource_version = max(self.resource_version, version)

    def apply_complete_list(self, objects: Iterable[T], version: int) -> None:
        """Apply a complete list at a version: objects that are not in it were deleted."""
        # A list older than the known version means that the server was restored or replaced: the whole store is
        # then obsolete, including the client's own writes.
        rewound = version < self.resource_version
        self.resource_version = version
        if rewound:
            self._tombstones.clear()
        listed: dict[ObjectKey, str] = {}
        for obj in objects:
            key, uid, _ = object_identity(obj)
            listed[key] = uid
            if rewound:
                self._put(key, obj)
            else:
                self._apply_if_newer(obj)
        for key in [key for key in self._objects if key not in listed]:
            if rewound or object_identity(self._objects[key]).version <= version:
                self._drop(key)
        for key, (uid, last) in list(self._tombstones.items()):
            if last <= version and listed.get(key) != uid:
                del self._tombstones[key]

    def _apply_if_newer(self, obj: T) -> None:
        key, uid, version = object_identity(obj)
        dead_uid, dead_version = self._tombstones.get(key, ("", -1))
        if uid == dead_uid or version <= dead_version:
            return
        known = self._objects.get(key)
        if known is None or version > object_identity(known).version:
            self._put(key, obj)

    def _put(self, key: ObjectKey, new: T) -> None:
        old = self._objects.get(key)
        self._reindex(key, old, new)
        self._objects[key] = new
        if self._on_change is not None:
            self._on_change(old, new)

    def _drop(self, key: ObjectKey) -> None:
        old = self._objects.pop(key)
        self._reindex(key, old, None)
        if self._on_change is not None:
            self._on_change(old, None)

    def _reindex(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            before = set() if old is None else set(indexer(old))
            after = set() if new is None else set(indexer(new))
            for entry in before - after:
                indexed = index[entry]
                del indexed[key]
                if not indexed:
                    del index[entry]
            if new is not None:
                for entry in after:
                    index.setdefault(entry, {})[key] = new
