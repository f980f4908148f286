"""Everything of a cluster that plans are made from, watched only once there is somebody to plan for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from pliant.controllers.autoscale.ledger import Ledger, News, owner_of_member
from pliant.controllers.autoscale.picture import Picture
from pliant.controllers.autoscale.register import Register
from pliant.controllers.autoscale.shapes import Shapes, marks
from pliant.controllers.autoscale.views import AnyPod, Quota
from pliant.errors import ApiError, Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Node
from pliant.kube.resources import NODES, PODS, QUOTAS, Resource

TRY_AGAIN = 1.0
"""Seconds until a server that did not answer is asked again."""

log = logging.getLogger(__name__)


class Sources:
    """All nodes, everybody's pods, and quotas; what changes is told as news."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Informer[Node],
        register: Register,
        on_news: Callable[[News], None],
    ) -> None:
        self.pods: Informer[AnyPod] = Informer(client, PODS, AnyPod, on_change=self._pod_changed)
        self.quotas: Informer[Quota] = Informer(client, QUOTAS, Quota, on_change=self._quota_changed)
        self._client = client
        self._nodes = nodes
        self._on_news = on_news
        shapes = Shapes(nodes.store)
        self.ledger = Ledger(shapes)
        self.picture = Picture(nodes.store, self.quotas.store, self.ledger, shapes, register)
        self._sees_quotas = True

    @property
    def informers(self) -> Mapping[str, Informer[Any]]:
        """What is followed beside nodes, by name."""
        quotas = {QUOTAS.plural: self.quotas} if self._sees_quotas else {}
        return {"pods of everybody": self.pods, **quotas}

    async def hindrance(self) -> str:
        """Why no plan can be made, as far as rights are concerned; empty if one can be."""
        for resource, problem in ((NODES, "nodes"), (PODS, "the pods of all namespaces")):
            if not await self._may_see(resource):
                return f"the operator may not see {problem}"
        self._sees_quotas = await self._may_see(QUOTAS)
        if not self._sees_quotas:
            log.info("quotas are not seen, so sizes are planned without them")
        return ""

    async def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Return once everything is known, and keep it so."""
        for informer in self.informers.values():
            tasks.create_task(informer.run())
            await informer.wait_synced()
        await self._nodes.wait_synced()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if old is None or new is None or marks(old) != marks(new):
            self.picture.touch_nodes()
            self._on_news(News.ROOM)

    async def _may_see(self, resource: Resource) -> bool:
        while True:
            try:
                await self._client.raw(f"{resource.path(None)}?limit=1")
            except (Forbidden, NotFound):
                return False
            except ApiError as problem:
                log.info("not seen at once", extra={"resource": resource.plural, "because": str(problem)})
                await asyncio.sleep(TRY_AGAIN)
                continue
            return True

    def _pod_changed(self, old: AnyPod | None, new: AnyPod | None) -> None:
        news = self.ledger.changed(old, new)
        if news is not News.NONE:
            self.picture.touch(filter(None, {owner_of_member(old), owner_of_member(new)}))
            self._on_news(news)

    def _quota_changed(self, old: Quota | None, new: Quota | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._on_news(News.ROOM)
