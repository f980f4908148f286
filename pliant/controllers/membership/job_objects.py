"""Where the objects of jobs come from: the stores of the leader, or watches of single jobs on another operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from pliant.controllers.membership.replica_path import MembershipUnavailable
from pliant.errors import NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS, Resource
from pliant.model.job_keys import KeyScope

SYNC_TIMEOUT_SECONDS = 5.0  # seconds that a request waits for the first list
MAX_JOB_WATCHES = 500

Object = Mapping[str, Any]
OnJobChange = Callable[[Resource, Object | None, Object | None], None]


class JobObjects(Protocol):
    async def get_job(self, resource: Resource, scope: KeyScope) -> Object | None:
        """Return the object of a job, or None if there is none; raise MembershipUnavailable if it cannot be read."""

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, or None if there is none; raise ApiError if it cannot be read now."""

    def find_cached_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod if it is known without a request."""

    def on_pod_written(self, pod: Pod) -> None:
        """Learn of a write of a pod."""

    def release(self, scope: KeyScope) -> None:
        """Forget a job that no replica has asked about for some time."""

    def close(self) -> None:
        """Release all jobs."""


class CachedJobObjects:
    """The objects in the stores of the operator that leads; it reports changes to the membership server itself."""

    def __init__(
        self,
        jobs: Mapping[tuple[str, str], ObjectStore[dict[str, Any]]],
        pods: Sequence[ObjectStore[Pod]],
        wait_ready: Callable[[], Awaitable[object]],
    ) -> None:
        self._jobs = jobs
        """The stores of jobs by API group and plural."""
        self._pods = pods
        self._wait_ready = wait_ready

    async def get_job(self, resource: Resource, scope: KeyScope) -> Object | None:
        try:
            async with asyncio.timeout(SYNC_TIMEOUT_SECONDS):
                await self._wait_ready()
        except TimeoutError:
            raise MembershipUnavailable("the operator is starting") from None
        store = self._jobs.get((resource.group, resource.plural))
        return store.get(scope.namespace, scope.name) if store is not None else None

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        return self.find_cached_pod(namespace, name)

    def find_cached_pod(self, namespace: str, name: str) -> Pod | None:
        return next(filter(None, (store.get(namespace, name) for store in self._pods)), None)

    def on_pod_written(self, pod: Pod) -> None:
        for store in self._pods:
            if store.get(pod.metadata.namespace, pod.metadata.name) is not None:
                store.apply_own_write(pod)

    def release(self, scope: KeyScope) -> None:
        pass

    def close(self) -> None:
        pass


class _JobWatch(NamedTuple):
    informer: Informer[dict[str, Any]]
    task: asyncio.Task[None]


class WatchedJobObjects:
    """Watches each job that replicas ask about, for an operator that does not lead and has no stores."""

    def __init__(self, client: KubeClient, on_change: OnJobChange) -> None:
        self._client = client
        self._on_change = on_change
        self._watches: dict[KeyScope, _JobWatch] = {}

    async def get_job(self, resource: Resource, scope: KeyScope) -> Object | None:
        watch = self._watches.get(scope)
        if watch is None or watch.task.done():
            watch = self._open(resource, scope)
        try:
            async with asyncio.timeout(SYNC_TIMEOUT_SECONDS):
                await watch.informer.wait_synced()
        except TimeoutError:
            raise MembershipUnavailable("the job cannot be read now") from None
        return watch.informer.store.get(scope.namespace, scope.name)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        try:
            return await self._client.get(PODS, namespace, name, decode_as=Pod)
        except NotFound:
            return None

    def find_cached_pod(self, namespace: str, name: str) -> Pod | None:
        return None

    def on_pod_written(self, pod: Pod) -> None:
        pass

    def release(self, scope: KeyScope) -> None:
        watch = self._watches.pop(scope, None)
        if watch is not None:
            watch.task.cancel()

    def close(self) -> None:
        for scope in list(self._watches):
            self.release(scope)

    def _open(self, resource: Resource, scope: KeyScope) -> _JobWatch:
        if scope not in self._watches and len(self._watches) >= MAX_JOB_WATCHES:
            raise MembershipUnavailable("this operator does not lead, and watches as many jobs as it may")

        def on_change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            self._on_change(resource, old, new)

        fields = f"metadata.name={scope.name}"
        informer = Informer(self._client, resource, dict, namespace=scope.namespace, fields=fields, on_change=on_change)
        watch = self._watches[scope] = _JobWatch(informer, asyncio.create_task(_run_informer(informer)))
        return watch


async def _run_informer(informer: Informer[dict[str, Any]]) -> None:
    with suppress(asyncio.CancelledError):
        await informer.run()
