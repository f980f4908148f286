"""What is known of one resource, kept right by a watch and by our own writes alike; never shows a ghost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from pliant.kube.objects import ObjectKey, object_identity

T = TypeVar("T")

Indexer = Callable[[T], Iterable[str]]
OnChange = Callable[[T | None, T | None], None]


class ObjectStore(Generic[T]):
    """Objects of one resource with indexes over them.

    The watch tells everything up to `version`, in order. Our own writes may run ahead of it: `note_written` and
    `note_deleted` show them at once, and nothing older undoes them. Objects handed out are shared: never change
    one. An index function must give the same answer for the same object.
    """

    def __init__(self, indexes: Mapping[str, Indexer[T]] | None = None, on_change: OnChange[T] | None = None) -> None:
        self.resource_version = 0
        """Everything the server did up to here is known."""
        self._objects: dict[ObjectKey, T] = {}
        self._indexers = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[ObjectKey, T]]] = {index: {} for index in self._indexers}
        self._on_change = on_change
        self._tombstones: dict[ObjectKey, tuple[str, int]] = {}
        """Uid and last known version of objects we deleted whose end the watch has not told yet."""

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name; cluster-wide ones have the namespace ''."""
        return self._objects.get((namespace, name))

    def all(self) -> tuple[T, ...]:
        """Every object, as of now."""
        return tuple(self._objects.values())

    def by_index(self, index: str, key: str) -> tuple[T, ...]:
        """The objects that an index files under a key."""
        return tuple(self._indexes[index].get(key, {}).values())

    def note_written(self, obj: T) -> None:
        """Take in the reply to a write of ours, of an object that this store would be told about."""
        version = object_identity(obj).version
        # Whatever became of a write that old, the watch has told already: taking it in could revive the dead.
        if version > self.resource_version:
            self._apply_if_newer(obj)

    def note_deleted(self, namespace: str, name: str, uid: str) -> None:
        """Take in that this incarnation is gone for good, as the server confirmed; its late events are moot."""
        key = (namespace, name)
        known = self._objects.get(key)
        if known is not None:
            _, known_uid, version = object_identity(known)
            if known_uid == uid:
                self._tombstones[key] = (uid, version)
                self._drop(key)

    def observe_written(self, obj: T) -> None:
        """Take in an addition or a change that the watch reports."""
        version = object_identity(obj).version
        if version >= self.resource_version:
            self.resource_version = version
            self._apply_if_newer(obj)

    def observe_deleted(self, obj: T) -> None:
        """Take in an end that the watch reports."""
        key, uid, version = object_identity(obj)
        self.resource_version = max(self.resource_version, version)
        if self._tombstones.get(key, ("", 0))[0] == uid:
            del self._tombstones[key]
        known = self._objects.get(key)
        # Newer than its end it can be when it left the selection and a write of ours has brought it back.
        if known is not None and _is_same_object_up_to(known, uid, version):
            self._drop(key)

    def observe_version(self, version: int) -> None:
        """Take in that the watch has told everything up to a version."""
        self.resource_version = max(self.resource_version, version)

    def replace(self, objects: Iterable[T], version: int) -> None:
        """Take in the whole collection as it stood at a version: what is missing has been deleted."""
        # A list that is older than what is known means that the server lost its memory (a restored or new
        # cluster): then nothing known before counts, not even our own writes.
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
        """Show an object, unless a newer one of its name is known or it comes from before our own deletion."""
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
                filed = index[entry]
                del filed[key]
                if not filed:
                    del index[entry]
            if new is not None:
                for entry in after:
                    index.setdefault(entry, {})[key] = new


def _is_same_object_up_to(obj: object, uid: str, version: int) -> bool:
    _, its_uid, its_version = object_identity(obj)
    return its_uid == uid and its_version <= version
