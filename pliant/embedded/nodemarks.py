"""Marks nodes that are not ready, cordoned or short of something, as Kubernetes' node controller does."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.server.lifecycle import timestamp
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Taint
from pliant.kube.resources import NODES
from pliant.kube.taints import derived, is_derived
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class NodeMarks:
    """Keeps the taints that follow from conditions as they should be; those of people are theirs."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._changed: asyncio.Queue[Node] = asyncio.Queue()

    async def run(self) -> None:
        """Mark nodes until cancelled."""
        while True:
            node = await self._changed.get()
            if _marks(node.spec.taints) != _marks(derived(node)):
                await self._mark(node)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if new is not None:
            self._changed.put_nowait(new)

    async def _mark(self, node: Node) -> None:
        meta = node.metadata
        try:
            raw = await patiently(partial(self._client.get, NODES, None, meta.name))
            taints = self._taints(raw.get("spec", {}).get("taints") or [], derived(node))
            # The version makes the server refuse, should somebody have been faster: then we hear of that, too.
            patch = {
                "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
                "spec": {"taints": taints},
            }
            await patiently(partial(self._client.patch, NODES, None, meta.name, patch))
        except TURNED_DOWN as refusal:
            log.info("node not marked", extra={"node": meta.name, "because": str(refusal)})

    def _taints(self, there: list[dict[str, Any]], wanted: list[Taint]) -> list[dict[str, Any]]:
        """What others put there and what is wanted; a mark that stays keeps its time."""
        marks = _marks(wanted)
        kept = [each for each in there if not is_derived(each["key"]) or _mark(each) in marks]
        missing = [each for each in wanted if (each.key, each.effect) not in {_mark(known) for known in kept}]
        now = timestamp(self._clock.now())
        return [*kept, *({"key": each.key, "effect": each.effect, "timeAdded": now} for each in missing)]


def _mark(taint: dict[str, Any]) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _marks(taints: list[Taint] | tuple[Taint, ...]) -> set[tuple[str, str]]:
    return {(each.key, each.effect) for each in taints if is_derived(each.key)}
