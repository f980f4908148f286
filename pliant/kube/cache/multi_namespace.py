"""Several namespaces as one: for operators that may look into some of them, and not into all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pliant.errors import ApiError
from pliant.kube.cache.informer import Informer
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import object_identity
from pliant.kube.resources import Resource

T = TypeVar("T")


class MultiNamespaceStore(ObjectStore[T]):
    """The stores of several namespaces, asked and told of our own writes as one.

    Each is kept by a watch of its own, with a version of its own: what a watch tells goes to it, never here.
    """

    def __init__(self, stores_by_namespace: Mapping[str, ObjectStore[T]]) -> None:
        super().__init__()
        self._stores = dict(stores_by_namespace)

    def __len__(self) -> int:
        return sum(map(len, self._stores.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name; None also in a namespace that is not looked into."""
        part = self._stores.get(namespace)
        return None if part is None else part.get(namespace, name)

    def all(self) -> tuple[T, ...]:
        """Every object, as of now."""
        return tuple(obj for part in self._stores.values() for obj in part.all())

    def by_index(self, index: str, key: str) -> tuple[T, ...]:
        """The objects that an index files under a key, wherever they are."""
        return tuple(obj for part in self._stores.values() for obj in part.by_index(index, key))

    def note_written(self, obj: T) -> None:
        """Take in the reply to a write of ours."""
        (namespace, _), _, _ = object_identity(obj)
        self._stores[namespace].note_written(obj)

    def note_deleted(self, namespace: str, name: str, uid: str) -> None:
        """Take in that this incarnation is gone for good."""
        self._stores[namespace].note_deleted(namespace, name, uid)


class MultiNamespaceInformer(Generic[T]):
    """The informers of several namespaces, run and waited for as one."""

    def __init__(self, informers_by_namespace: Mapping[str, Informer[T]]) -> None:
        self.store: ObjectStore[T] = MultiNamespaceStore(
            {name: part.store for name, part in informers_by_namespace.items()}
        )
        self._informers = tuple(informers_by_namespace.values())

    @property
    def is_synced(self) -> bool:
        """Whether every store holds a complete list."""
        return all(part.is_synced for part in self._informers)

    @property
    def last_error(self) -> ApiError | None:
        """What went wrong in one of the namespaces, if anything did; it may be over."""
        return next((part.last_error for part in self._informers if part.last_error is not None), None)

    @property
    def list_count(self) -> int:
        """Whole collections read."""
        return sum(part.list_count for part in self._informers)

    @property
    def watch_count(self) -> int:
        """Watches begun."""
        return sum(part.watch_count for part in self._informers)

    async def wait_synced(self) -> None:
        """Return once every store holds a complete list."""
        for part in self._informers:
            await part.wait_synced()

    async def run(self) -> None:
        """Keep every store current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._informers:
                tasks.create_task(part.run())


AnyInformer = Informer[T] | MultiNamespaceInformer[T]


def create_informer(
    client: KubeClient, resource: Resource, decode_as: type[T], *, namespaces: Sequence[str] = (), **options: Any
) -> AnyInformer[T]:
    """An informer of these namespaces, or of all when none is named; options are those of `Informer`."""
    names = tuple(dict.fromkeys(namespaces))
    if len(names) > 1:
        return MultiNamespaceInformer(
            {name: Informer(client, resource, decode_as, namespace=name, **options) for name in names}
        )
    return Informer(client, resource, decode_as, namespace=names[0] if names else None, **options)
