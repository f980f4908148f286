"""Storage that outlives pods: every volume claim is bound at once, and is a folder of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from pliant.embedded.amounts import Amount
from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.patience import patiently
from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import CLAIMS


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

    def __init__(self, client: KubeClient, furnishing: Furnishing) -> None:
        self._client = client
        self._furnishing = furnishing
        self._unbound: asyncio.Queue[ClaimView] = asyncio.Queue()
        self._gone: asyncio.Queue[str] = asyncio.Queue()

    def claim_changed(self, old: ClaimView | None, new: ClaimView | None) -> None:
        """Take in what became of a claim."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._gone.put_nowait(old.metadata.uid)
        if new is not None and new.status.phase != "Bound" and new.metadata.deletion_timestamp is None:
            self._unbound.put_nowait(new)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._bind_all())
            tasks.create_task(self._clear_all())

    async def _bind_all(self) -> None:
        while True:
            claim = await self._unbound.get()
            # One that is gone or another by now is heard of again, if there is anything left to do.
            with suppress(NotFound, Conflict, Invalid):
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

    async def _clear_all(self) -> None:
        while True:
            uid = await self._gone.get()
            await asyncio.to_thread(self._furnishing.forget_claim, uid)
