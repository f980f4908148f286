"""Storage that outlives pods: every volume claim is bound at once, and is a folder of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.claimrules import PROTECTION
from pliant.embedded.server.lifecycle import timestamp
from pliant.embedded.views import PodView
from pliant.errors import ApiError
from pliant.kube.amounts import Amount
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.placing import FINISHED
from pliant.kube.resources import CLAIMS, EVENTS, PODS
from pliant.runtime.clock import Clock

_COMPONENT = "persistentvolume-controller"


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False, kw_only=True):
    """Shared decoding rules."""


class _Resources(_Part, frozen=True):
    requests: dict[str, Amount] = {}


class _Spec(_Part, frozen=True):
    access_modes: tuple[str, ...] = ()
    resources: _Resources = _Resources()
    volume_name: str = ""


class _Status(_Part, frozen=True):
    phase: str = "Pending"


class ClaimView(_Part, frozen=True):
    """A claim as far as binding looks."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class Claims:
    """Binds claims, whatever class they ask for, and takes the folders of those that are gone away."""

    def __init__(self, client: KubeClient, clock: Clock, furnishing: Furnishing) -> None:
        self._client = client
        self._clock = clock
        self._furnishing = furnishing
        self._unbound: asyncio.Queue[ClaimView] = asyncio.Queue()
        self._gone: asyncio.Queue[str] = asyncio.Queue()
        self._leaving: dict[str, ClaimView] = {}
        """Claims that are to go as soon as no pod uses them."""
        self._look_again = asyncio.Event()

    def claim_changed(self, old: ClaimView | None, new: ClaimView | None) -> None:
        """Take in what became of a claim."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._gone.put_nowait(old.metadata.uid)
        if new is None:
            self._leaving.pop(old.metadata.uid if old is not None else "", None)
        elif new.metadata.deletion_timestamp is not None:
            self._leaving[new.metadata.uid] = new
            self._look_again.set()
        elif new.status.phase != "Bound":
            self._unbound.put_nowait(new)

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Hear of pods that use nothing any longer."""
        if self._leaving and (new is None or new.is_finished):
            self._look_again.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bind_all())
            tasks.create_task(self._clear_all())
            tasks.create_task(self._let_go_all())

    async def _bind_all(self) -> None:
        while True:
            claim = await self._unbound.get()
            # One that is gone or another by now is heard of again, if there is anything left to do.
            with suppress(*TURNED_DOWN):
                await self._bind(claim)

    async def _bind(self, claim: ClaimView) -> None:
        meta, spec = claim.metadata, claim.spec
        where = (CLAIMS, meta.namespace, meta.name)
        is_same = {"metadata": {"uid": meta.uid}}
        if not spec.volume_name:
            volume = {"spec": {"volumeName": f"pvc-{meta.uid}"}}
            await patiently(partial(self._client.patch, *where, {**is_same, **volume}))
        status = {
            "phase": "Bound",
            "accessModes": list(spec.access_modes),
            "capacity": {"storage": spec.resources.requests.get("storage", "0")},
        }
        await patiently(partial(self._client.patch, *where, {**is_same, "status": status}, subresource="status"))
        await self._tell(meta, spec.volume_name or f"pvc-{meta.uid}")

    async def _tell(self, claim: ObjectMeta, volume: str) -> None:
        """Say where `kubectl describe` looks that the claim can be used."""
        stamp = timestamp(self._clock.now())
        about = {"apiVersion": "v1", "kind": CLAIMS.kind, "name": claim.name, "namespace": claim.namespace}
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{claim.name}.{claim.uid}", "namespace": claim.namespace},
            "involvedObject": {**about, "uid": claim.uid},
            "type": "Normal",
            "reason": "ProvisioningSucceeded",
            "message": f"Successfully provisioned volume {volume}",
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
        }
        with suppress(ApiError):  # a claim is bound all the same
            await self._client.create(EVENTS, claim.namespace, body)

    async def _clear_all(self) -> None:
        while True:
            uid = await self._gone.get()
            await asyncio.to_thread(self._furnishing.forget_claim, uid)

    async def _let_go_all(self) -> None:
        while True:
            await self._look_again.wait()
            self._look_again.clear()
            for claim in list(self._leaving.values()):
                with suppress(*TURNED_DOWN):
                    await self._let_go(claim.metadata)

    async def _let_go(self, claim: ObjectMeta) -> None:
        """Take the protection off a claim that no pod uses."""
        pods = await patiently(partial(self._client.list, PODS, claim.namespace))
        if any(_uses(pod, claim.name) for pod in pods.items):
            return
        present = await patiently(partial(self._client.get, CLAIMS, claim.namespace, claim.name))
        kept = [each for each in present["metadata"].get("finalizers") or () if each != PROTECTION]
        patch = {"metadata": {"uid": claim.uid, "finalizers": kept}}
        await patiently(partial(self._client.patch, CLAIMS, claim.namespace, claim.name, patch))


def _uses(pod: dict[str, Any], claim: str) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    is_named = any((each.get("persistentVolumeClaim") or {}).get("claimName") == claim for each in volumes)
    return is_named and (pod.get("status") or {}).get("phase") not in FINISHED
