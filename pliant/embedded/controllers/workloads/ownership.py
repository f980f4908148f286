"""Adoption and release: a controller owns the objects that its selector matches and that no other controller owns."""

from __future__ import annotations

from typing import Any, TypeVar

from pliant.embedded.apiserver.admission.disruption_budgets import label_selector_matches
from pliant.embedded.controllers.workloads.views import (
    CONTROLLER_INDEX,
    Object,
    controller_of,
    controller_reference,
    orphan_index_key,
)
from pliant.embedded.controllers.workloads.writes import WorkloadWriter
from pliant.errors import Invalid, NotFound
from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import Resource

T = TypeVar("T")


class Claimer:
    """Claims the dependents of one resource, such as pods, for their controllers of another one."""

    def __init__(
        self,
        writer: WorkloadWriter,
        owners: Resource,
        dependents: Resource,
        decode_as: type[Any],
        *,
        finalizer: str = "",
    ) -> None:
        """Give adopted dependents this finalizer, and take it from released ones."""
        self._finalizer = finalizer
        self._writer = writer
        self._owners = owners
        self._dependents = dependents
        self._decode_as = decode_as

    async def claim(self, store: ObjectStore[T], owner: ObjectMeta, selector: Object) -> list[T]:
        """Return the dependents of an owner, after it adopted orphans and released what it no longer selects."""
        claimed: list[T] = []
        keys = (owner.uid, orphan_index_key(owner.namespace))
        is_checked = False
        for dependent in (each for key in keys for each in store.by_index(CONTROLLER_INDEX, key)):
            meta: ObjectMeta = dependent.metadata  # type: ignore[attr-defined]
            matches = label_selector_matches(selector, meta.labels)
            if controller_of(meta) is not None:
                if matches or owner.deletion_timestamp is not None:
                    claimed.append(dependent)
                else:
                    await self._release(meta, owner)
            elif matches and meta.deletion_timestamp is None and owner.deletion_timestamp is None:
                # The cache may be older than the deletion of the owner.
                if not is_checked and not await self._is_current(owner):
                    return claimed
                is_checked = True
                if (adopted := await self._adopt(meta, owner)) is not None:
                    claimed.append(adopted)
        return claimed

    async def _is_current(self, owner: ObjectMeta) -> bool:
        current = await self._writer.read(self._owners, owner, dict)
        return (
            current is not None
            and current["metadata"]["uid"] == owner.uid
            and not current["metadata"].get("deletionTimestamp")
        )

    async def _adopt(self, dependent: ObjectMeta, owner: ObjectMeta) -> Any:
        finalizers = {"finalizers": [self._finalizer]} if self._finalizer else {}
        return await self._patch(dependent, controller_reference(self._owners, owner), finalizers)

    async def _release(self, dependent: ObjectMeta, owner: ObjectMeta) -> None:
        finalizers = {"$deleteFromPrimitiveList/finalizers": [self._finalizer]} if self._finalizer else {}
        await self._patch(dependent, {"$patch": "delete", "uid": owner.uid}, finalizers)

    async def _patch(self, dependent: ObjectMeta, reference: Object, finalizers: Object) -> Any:
        patch = {"metadata": {"ownerReferences": [reference], **finalizers}}
        try:
            return await self._writer.merge(self._dependents, dependent, patch, self._decode_as)
        except (NotFound, Invalid):
            return None  # it was deleted meanwhile
