"""Binds PersistentVolumeClaims; each claim is a directory on the host that outlives pods."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from pliant.embedded.apiserver.admission.validation.claims import PVC_PROTECTION_FINALIZER
from pliant.embedded.kubelet.volumes.pod_filesystem import PodFilesystem
from pliant.embedded.object_views import PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, retry_until_answered
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from pliant.kube.scheduling.fit import TERMINAL_POD_PHASES
from pliant.kube.timestamps import format_timestamp
from pliant.runtime.clock import Clock
from pliant.schemas.quantity import Quantity

_EVENT_COMPONENT = "persistentvolume-controller"


class _ClaimResources(msgspec.Struct, frozen=True):
    requests: dict[str, Quantity] = {}


class _ClaimSpec(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] = ()
    resources: _ClaimResources = _ClaimResources()
    volume_name: str = ""


class _ClaimStatus(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class VolumeClaimView(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _ClaimSpec = _ClaimSpec()
    status: _ClaimStatus = _ClaimStatus()


class VolumeClaimController:
    """Binds claims of every storage class, and deletes the directories of deleted claims."""

    def __init__(self, client: KubeClient, clock: Clock, pod_filesystem: PodFilesystem) -> None:
        self._client = client
        self._clock = clock
        self._pod_filesystem = pod_filesystem
        self._unbound: asyncio.Queue[VolumeClaimView] = asyncio.Queue()
        self._deleted_uids: asyncio.Queue[str] = asyncio.Queue()
        self._terminating: dict[str, VolumeClaimView] = {}
        """Claims that are deleted as soon as no pod uses them, by uid."""
        self._recheck = asyncio.Event()

    def on_claim_change(self, old: VolumeClaimView | None, new: VolumeClaimView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._deleted_uids.put_nowait(old.metadata.uid)
        if new is None:
            self._terminating.pop(old.metadata.uid if old is not None else "", None)
        elif new.metadata.deletion_timestamp is not None:
            self._terminating[new.metadata.uid] = new
            self._recheck.set()
        elif new.status.phase != "Bound":
            self._unbound.put_nowait(new)

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if self._terminating and (new is None or new.is_finished):
            self._recheck.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bind_claims())
            tasks.create_task(self._delete_volume_directories())
            tasks.create_task(self._release_terminating_claims())

    async def _bind_claims(self) -> None:
        while True:
            claim = await self._unbound.get()
            # If the claim has changed meanwhile, its watch event enqueues it again.
            with suppress(*NON_RETRYABLE_API_ERRORS):
                await self._bind(claim)

    async def _bind(self, claim: VolumeClaimView) -> None:
        meta, spec = claim.metadata, claim.spec
        patch = partial(self._client.patch, PERSISTENT_VOLUME_CLAIMS, meta.namespace, meta.name)
        precondition = {"metadata": {"uid": meta.uid}}
        if not spec.volume_name:
            volume = {"spec": {"volumeName": f"pvc-{meta.uid}"}}
            await retry_until_answered(partial(patch, {**precondition, **volume}))
        status = {
            "phase": "Bound",
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": spec.resources.requests.get("storage", "0")},
        }
        await retry_until_answered(partial(patch, {**precondition, "status": status}, subresource="status"))
        await self._emit_provisioned_event(meta, spec.volume_name or f"pvc-{meta.uid}")

    async def _emit_provisioned_event(self, claim: ObjectMeta, volume: str) -> None:
        stamp = format_timestamp(self._clock.now())
        kind = PERSISTENT_VOLUME_CLAIMS.kind
        reference = {"kind": kind, "namespace": claim.namespace, "name": claim.name, "uid": claim.uid}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{claim.name}.{claim.uid}", "namespace": claim.namespace},
            "involvedObject": {"apiVersion": "v1", **reference},
            "type": "Normal",
            "reason": "ProvisioningSucceeded",
            "message": f"Successfully provisioned volume {volume}",
            "source": {"component": _EVENT_COMPONENT},
            "reportingComponent": _EVENT_COMPONENT,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        with suppress(ApiError):  # the claim is bound even without the event
            await self._client.create(EVENTS, claim.namespace, body)

    async def _delete_volume_directories(self) -> None:
        while True:
            uid = await self._deleted_uids.get()
            await asyncio.to_thread(self._pod_filesystem.remove_claim_dir, uid)

    async def _release_terminating_claims(self) -> None:
        while True:
            await self._recheck.wait()
            self._recheck.clear()
            for claim in list(self._terminating.values()):
                with suppress(*NON_RETRYABLE_API_ERRORS):
                    await self._remove_protection_finalizer(claim.metadata)

    async def _remove_protection_finalizer(self, claim: ObjectMeta) -> None:
        pods = await retry_until_answered(partial(self._client.list, PODS, claim.namespace))
        if any(_uses_claim(pod, claim.name) for pod in pods.items):
            return
        current = await retry_until_answered(
            partial(self._client.get, PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name)
        )
        finalizers = [each for each in current["metadata"].get("finalizers") or () if each != PVC_PROTECTION_FINALIZER]
        patch = {"metadata": {"uid": claim.uid, "finalizers": finalizers}}
        await retry_until_answered(
            partial(self._client.patch, PERSISTENT_VOLUME_CLAIMS, claim.namespace, claim.name, patch)
        )


def _uses_claim(pod: dict[str, Any], claim_name: str) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    is_named = any((each.get("persistentVolumeClaim") or {}).get("claimName") == claim_name for each in volumes)
    return is_named and (pod.get("status") or {}).get("phase") not in TERMINAL_POD_PHASES
