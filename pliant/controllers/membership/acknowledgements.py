"""Stores the acknowledgements of checkpoint requests in an annotation of the replica's pod."""

from __future__ import annotations

import asyncio
import logging

from pliant.controllers.membership.job_objects import JobObjects
from pliant.controllers.membership.replica_path import MembershipUnavailable, UnknownReplica
from pliant.errors import ApiError, Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.kube.transport.write_flows import WriteFlow
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter
from pliant.model.job_keys import KeyScope
from pliant.model.labels import ACKNOWLEDGED_CHECKPOINT_ANNOTATION, acknowledged_checkpoint

STORE_TIMEOUT_SECONDS = 30.0

log = logging.getLogger(__name__)


class AcknowledgementStore:
    """Writes each acknowledgement once, and never replaces one by a lower one.

    A write continues if its client disconnects: the client would repeat it.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client.with_write_limiter(AdaptiveWriteLimiter())
        self._writes: dict[str, asyncio.Task[Pod]] = {}
        """The writes in flight, by the UID of the pod."""

    async def store(self, objects: JobObjects, scope: KeyScope, pod_name: str, number: int) -> None:
        """Store an acknowledgement; raise UnknownReplica if the job has no such pod, or MembershipUnavailable."""
        try:
            async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
                await self._store_if_higher(objects, scope, pod_name, number)
        except (NotFound, Conflict, Invalid):  # a patch with the UID of an earlier pod is a conflict or invalid
            raise UnknownReplica(f"not found: the pod {pod_name} is gone") from None
        except (ApiError, TimeoutError) as error:
            log.info("acknowledgement not stored", extra={"pod": f"{scope.namespace}/{pod_name}", "error": str(error)})
            raise MembershipUnavailable("the acknowledgement cannot be stored now") from None

    def close(self) -> None:
        for write in self._writes.values():
            write.cancel()

    async def _store_if_higher(self, objects: JobObjects, scope: KeyScope, pod_name: str, number: int) -> None:
        pod = await objects.get_pod(scope.namespace, pod_name)
        if pod is None or all(ref.uid != scope.uid for ref in pod.metadata.owner_references):
            raise UnknownReplica(f"not found: the job has no pod {pod_name}")
        while (write := self._writes.get(pod.metadata.uid)) is not None:
            pod = await asyncio.shield(write)
        stored = acknowledged_checkpoint(pod.metadata.annotations)
        if stored is not None and stored >= number:
            return
        task = asyncio.create_task(self._patch(objects, scope, pod, number))
        self._writes[pod.metadata.uid] = task
        task.add_done_callback(lambda _: self._writes.pop(pod.metadata.uid, None))
        await asyncio.shield(task)

    async def _patch(self, objects: JobObjects, scope: KeyScope, pod: Pod, number: int) -> Pod:
        annotations = {ACKNOWLEDGED_CHECKPOINT_ANNOTATION: str(number)}
        patch = {"metadata": {"uid": pod.metadata.uid, "annotations": annotations}}
        client = self._client.for_flow(WriteFlow(scope.namespace, scope.name))
        patched = await client.patch(PODS, scope.namespace, pod.metadata.name, patch, decode_as=Pod)
        objects.on_pod_written(patched)
        return patched
