"""Several namespaces as one: for operators that may look into some of them, and not into all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import identity
from pliant.kube.resources import Resource
from pliant.kube.store import ObjectStore

T = TypeVar("T")


class JoinedStore(ObjectStore[T]):
    """The stores of several namespaces, asked and told of our own writes as one.

    Each is kept by a watch of its own, with a version of its own: what a watch tells goes to it, never here.
    """

    def __init__(self, parts: Mapping[str, ObjectStore[T]]) -> None:
        super().__init__()
        self._parts = dict(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """The object of that name; None also in a namespace that is not looked into."""
        part = self._parts.get(namespace)
        return None if part is None else part.get(namespace, name)

    def all(self) -> tuple[T, ...]:
        """Every object, as of now."""
        return tuple(obj for part in self._parts.values() for obj in part.all())

    def by_index(self, index: str, key: str) -> tuple[T, ...]:
        """The objects that an index files under a key, wherever they are."""
        return tuple(obj for part in self._parts.values() for obj in part.by_index(index, key))

    def note_written(self, obj: T) -> None:
        """Take in the reply to a write of ours."""
        (namespace, _), _, _ = identity(obj)
        self._parts[namespace].note_written(obj)

    def note_deleted(self, namespace: str, name: str, uid: str) -> None:
        """Take in that this incarnation is gone for good."""
        self._parts[namespace].note_deleted(namespace, name, uid)


class JoinedInformer(Generic[T]):
    """The informers of several namespaces, run and waited for as one."""

    def __init__(self, parts: Mapping[str, Informer[T]]) -> None:
        self.store: ObjectStore[T] = JoinedStore({name: part.store for name, part in parts.items()})
        self._parts = tuple(parts.values())

    @property
    def is_synced(self) -> bool:
        """Whether every store holds a complete list."""
        return all(part.is_synced for part in self._parts)

    @property
    def last_problem(self) -> ApiError | None:
        """What went wrong in one of the namespaces, if anything did; it may be over."""
        return next((part.last_problem for part in self._parts if part.last_problem is not None), None)

    @property
    def lists(self) -> int:
        """Whole collections read."""
        return sum(part.lists for part in self._parts)

    @property
    def watches(self) -> int:
        """Watches begun."""
        return sum(part.watches for part in self._parts)

    async def wait_synced(self) -> None:
        """Return once every store holds a complete list."""
        for part in self._parts:
            await part.wait_synced()

    async def run(self) -> None:
        """Keep every store current until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for part in self._parts:
                tasks.create_task(part.run())


AnyInformer = Informer[T] | JoinedInformer[T]


def informer_of(
    client: KubeClient, resource: Resource, into: type[T], *, namespaces: Sequence[str] = (), **options: Any
) -> AnyInformer[T]:
    """An informer of these namespaces, or of all when none is named; options are those of `Informer`."""
    names = tuple(dict.fromkeys(namespaces))
    if len(names) > 1:
        return JoinedInformer(
            {name: Informer(client, resource, into, namespace=name, **options) for name in names}
        )
    return Informer(client, resource, into, namespace=names[0] if names else None, **options)
