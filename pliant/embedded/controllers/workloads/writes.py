"""The writes of workload controllers; each is visible in the informers' stores at once, before its watch event."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from pliant.embedded.controllers.workloads.views import Object, controller_reference
from pliant.errors import AlreadyExists, ApiError, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta, Pod
from pliant.kube.resources import EVENTS, PODS, Resource
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

T = TypeVar("T")

_MAX_MESSAGE_CHARACTERS = 1024

log = logging.getLogger(__name__)


class WorkloadWriter:
    """Writes objects of several resources, and events about them."""

    def __init__(self, client: KubeClient, clock: Clock, stores: Mapping[Resource, ObjectStore[Any]]) -> None:
        self._client = client
        self._clock = clock
        self._stores = stores

    async def create(self, resource: Resource, namespace: str, body: Object, decode_as: type[T]) -> T:
        created = await self._client.create(resource, namespace, body, decode_as=decode_as)
        self._stores[resource].apply_own_write(created)
        return created

    async def read(self, resource: Resource, metadata: ObjectMeta, decode_as: type[T]) -> T | None:
        """Read the newest state of an object; None if it does not exist any more."""
        try:
            return await self._client.get(resource, metadata.namespace, metadata.name, decode_as=decode_as)
        except NotFound:
            return None

    async def patch(
        self,
        resource: Resource,
        metadata: ObjectMeta,
        patch: Object,
        decode_as: type[T],
        *,
        content_type: str = MERGE_PATCH,
    ) -> T:
        """Patch an object if it has not changed since it was read; raise Conflict otherwise."""
        version = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        call = partial(self._client.patch, resource, metadata.namespace, metadata.name, body, decode_as=decode_as)
        patched: T = await call(content_type=content_type)
        self._stores[resource].apply_own_write(patched)
        return patched

    async def merge(self, resource: Resource, metadata: ObjectMeta, patch: Object, decode_as: type[T]) -> T:
        """Patch single entries of lists, such as one owner reference or one finalizer."""
        return await self.patch(resource, metadata, patch, decode_as, content_type=STRATEGIC_MERGE_PATCH)

    async def replace_status(self, resource: Resource, metadata: ObjectMeta, status: Object, decode_as: type[T]) -> T:
        """Replace the status of an object if it has not changed since it was read; raise Conflict otherwise.

        An update of a status would also replace labels, annotations, finalizers and owners.
        """
        patch = [
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
            {"op": "add", "path": "/status", "value": status},
        ]
        call = partial(self._client.patch, resource, metadata.namespace, metadata.name, patch, subresource="status")
        written: T = await call(content_type=JSON_PATCH, decode_as=decode_as)
        self._stores[resource].apply_own_write(written)
        return written

    async def delete(self, resource: Resource, metadata: ObjectMeta, *, propagation: str | None = None) -> None:
        """Delete an object unless it does not exist any more."""
        try:
            answer = await self._client.delete(
                resource, metadata.namespace, metadata.name, uid=metadata.uid, propagation=propagation
            )
        except NotFound:
            return
        store = self._stores[resource]
        if answer.get("kind") == "Status" or not _remains(answer):
            store.apply_own_deletion(metadata.namespace, metadata.name, metadata.uid)
        elif resource == PODS:
            store.apply_own_write(msgspec.convert(answer, Pod))

    async def emit(self, resource: Resource, regarding: ObjectMeta, event: tuple[str, str], *, warning: bool) -> None:
        """Write an event, given by its reason and message; a repeated event is counted."""
        reason, message = event
        now, component = format_timestamp(self._clock.now()), f"{resource.kind.lower()}-controller"
        digest = hashlib.sha256(f"{regarding.uid}/{reason}/{message}".encode()).hexdigest()[:16]
        reference = {"apiVersion": resource.api_version, "kind": resource.kind, "uid": regarding.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding.name}.{digest}", "namespace": regarding.namespace},
            "involvedObject": {**reference, "name": regarding.name, "namespace": regarding.namespace},
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:_MAX_MESSAGE_CHARACTERS],
            "source": {"component": component},
            "reportingComponent": component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._create_or_count_event(regarding.namespace, body)
        except ApiError as error:
            log.warning("event not written", extra={"object": regarding.name, "reason": reason, "error": str(error)})

    async def _create_or_count_event(self, namespace: str, body: Object) -> None:
        name = body["metadata"]["name"]
        try:
            await self._client.create(EVENTS, namespace, body)
        except AlreadyExists:
            known = await self._client.get(EVENTS, namespace, name)
            repeat = {"count": (known.get("count") or 1) + 1, "lastTimestamp": body["lastTimestamp"]}
            await self._client.patch(EVENTS, namespace, name, repeat)


def _remains(answer: Object) -> bool:
    """Return whether a deleted object still exists: it has a grace period or finalizers."""
    metadata = answer.get("metadata") or {}
    return bool(metadata.get("deletionGracePeriodSeconds") or metadata.get("finalizers"))


def build_pod(resource: Resource, owner: ObjectMeta, template: Object) -> Object:
    """Return the pod of a template, owned by its controller."""
    metadata = template.get("metadata") or {}
    copied = {field: metadata[field] for field in ("labels", "annotations", "finalizers") if metadata.get(field)}
    references = [controller_reference(resource, owner)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**copied, "generateName": f"{owner.name}-", "ownerReferences": references},
        "spec": template.get("spec") or {},
    }


async def run_in_batches(calls: Iterable[Callable[[], Awaitable[None]]]) -> ApiError | None:
    """Make calls in batches of 1, 2, 4 and so on, and return the first error, after which no batch is started."""
    remaining, size = list(calls), 1
    while remaining:
        batch, remaining = remaining[:size], remaining[size:]
        results = await asyncio.gather(*(call() for call in batch), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in errors:
            if not isinstance(error, ApiError):
                raise error
        if errors:
            first = errors[0]
            return first if isinstance(first, ApiError) else None
        size *= 2
    return None
