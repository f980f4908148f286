"""Informers over several namespaces, for an operator that has no access to the whole cluster."""

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
    """Presents the stores of several namespaces as one, for reads and for the operator's own writes.

    Each store belongs to the watch of its namespace and has its own resource version; watch events bypass this class.
    """

    def __init__(self, stores_by_namespace: Mapping[str, ObjectStore[T]]) -> None:
        super().__init__()
        self._stores = dict(stores_by_namespace)

    def __len__(self) -> int:
        return sum(map(len, self._stores.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object; None also if the namespace is not watched."""
        store = self._stores.get(namespace)
        return None if store is None else store.get(namespace, name)

    def all(self) -> tuple[T, ...]:
        return tuple(obj for store in self._stores.values() for obj in store.all())

    def by_index(self, index: str, key: str) -> tuple[T, ...]:
        return tuple(obj for store in self._stores.values() for obj in store.by_index(index, key))

    def apply_own_write(self, obj: T) -> None:
        (namespace, _), _, _ = object_identity(obj)
        self._stores[namespace].apply_own_write(obj)

    def apply_own_deletion(self, namespace: str, name: str, uid: str) -> None:
        self._stores[namespace].apply_own_deletion(namespace, name, uid)


class MultiNamespaceInformer(Generic[T]):
    def __init__(self, informers_by_namespace: Mapping[str, Informer[T]]) -> None:
        self.store: ObjectStore[T] = MultiNamespaceStore(
            {name: informer.store for name, informer in informers_by_namespace.items()}
        )
        self._informers = tuple(informers_by_namespace.values())

    @property
    def is_synced(self) -> bool:
        return all(informer.is_synced for informer in self._informers)

    @property
    def last_error(self) -> ApiError | None:
        """An error of any of the namespaces; its informer may have recovered from it."""
        return next((informer.last_error for informer in self._informers if informer.last_error is not None), None)

    @property
    def list_count(self) -> int:
        return sum(informer.list_count for informer in self._informers)

    @property
    def watch_count(self) -> int:
        return sum(informer.watch_count for informer in self._informers)

    async def wait_synced(self) -> None:
        for informer in self._informers:
            await informer.wait_synced()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())


AnyInformer = Informer[T] | MultiNamespaceInformer[T]


def create_informer(
    client: KubeClient, resource: Resource, decode_as: type[T], *, namespaces: Sequence[str] = (), **options: Any
) -> AnyInformer[T]:
    """Create an informer over these namespaces, or over all if none is given; `options` go to `Informer`."""
    names = tuple(dict.fromkeys(namespaces))
    if len(names) > 1:
        return MultiNamespaceInformer(
            {name: Informer(client, resource, decode_as, namespace=name, **options) for name in names}
        )
    return Informer(client, resource, decode_as, namespace=names[0] if names else None, **options)
