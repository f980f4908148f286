"""Taints nodes that are not ready, unschedulable or under pressure, as the node lifecycle controller does."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any

from pliant.embedded.apiserver.handlers.object_lifecycle import format_timestamp
from pliant.embedded.retries import REJECTION_ERRORS, with_retries
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Taint
from pliant.kube.resources import NODES
from pliant.kube.scheduling.taints import condition_taints, is_condition_taint
from pliant.runtime.clock import Clock

log = logging.getLogger(__name__)


class TaintController:
    """Keeps taints that follow from node conditions up to date; taints that users set stay."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._changed: asyncio.Queue[Node] = asyncio.Queue()

    async def run(self) -> None:
        while True:
            node = await self._changed.get()
            if _derived_taint_keys(node.spec.taints) != _derived_taint_keys(condition_taints(node)):
                await self._update_taints(node)

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        if new is not None:
            self._changed.put_nowait(new)

    async def _update_taints(self, node: Node) -> None:
        meta = node.metadata
        try:
            raw = await with_retries(partial(self._client.get, NODES, None, meta.name))
            taints = self._merge_taints(raw.get("spec", {}).get("taints") or [], condition_taints(node))
            # With the resource version a concurrent change gives a conflict; its watch event triggers another update.
            patch = {
                "metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid},
                "spec": {"taints": taints},
            }
            await with_retries(partial(self._client.patch, NODES, None, meta.name, patch))
        except REJECTION_ERRORS as error:
            log.info("node taints not written", extra={"node": meta.name, "error": str(error)})

    def _merge_taints(self, current: list[dict[str, Any]], desired: list[Taint]) -> list[dict[str, Any]]:
        """Return the taints of users and the desired ones; a taint that stays keeps its timeAdded."""
        desired_keys = _derived_taint_keys(desired)
        kept = [each for each in current if not is_condition_taint(each["key"]) or _taint_key(each) in desired_keys]
        missing = [each for each in desired if (each.key, each.effect) not in {_taint_key(known) for known in kept}]
        now = format_timestamp(self._clock.now())
        return [*kept, *({"key": each.key, "effect": each.effect, "timeAdded": now} for each in missing)]


def _taint_key(taint: dict[str, Any]) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _derived_taint_keys(taints: list[Taint] | tuple[Taint, ...]) -> set[tuple[str, str]]:
    return {(each.key, each.effect) for each in taints if is_condition_taint(each.key)}
