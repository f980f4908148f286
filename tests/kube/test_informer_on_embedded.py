from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import CONFIG_MAPS, PODS
from pliant.kube.transport.base import Request, StreamReply
from tests.embedded.serving import Served, config, pod, serving
from tests.virtual_time import on_virtual_time, passing, quiet


class Cuttable:
    """The embedded server behind a line that a test can cut."""

    def __init__(self, served: Served) -> None:
        self._inner = served.transport
        self.send = self._inner.send
        self.aclose = self._inner.aclose
        self.is_cut = asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamReply]:
        async with self._inner.stream(request) as reply:
            yield StreamReply(status=reply.status, chunks=self._until_cut(reply.chunks))

    async def _until_cut(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        while not self.is_cut.is_set():
            arriving = asyncio.ensure_future(anext(chunks, None))
            cutting = asyncio.ensure_future(self.is_cut.wait())
            try:
                await asyncio.wait((arriving, cutting), return_when=asyncio.FIRST_COMPLETED)
                chunk = arriving.result() if arriving.done() else None
            finally:
                arriving.cancel()
                cutting.cancel()
                await asyncio.gather(arriving, cutting, return_exceptions=True)
            if chunk is None:
                return
            yield chunk


@on_virtual_time
async def test_an_informer_follows_the_embedded_server_through_cuts_and_hours_of_silence() -> None:
    async with serving() as served:
        line = Cuttable(served)
        client = served.client
        made = await client.create(PODS, "default", pod("first"), decode_as=Pod)
        async with informed(KubeClient(line), labels="app=x") as (picked, everything):
            assert names(everything) == {"first"}
            await client.create(PODS, "default", pod("second", labels={"app": "x"}))
            await quiet()
            assert (names(everything), names(picked)) == ({"first", "second"}, {"second"})
            await client.patch(PODS, "default", "second", {"metadata": {"labels": {"app": "y"}}})
            await quiet()
            assert names(picked) == set()
            line.is_cut.set()
            await quiet()
            line.is_cut.clear()
            await client.delete(PODS, "default", "first", uid=made.metadata.uid, grace_period_seconds=0)
            await client.create(PODS, "default", pod("third", labels={"app": "x"}))
            await passing(timedelta(seconds=2))
            assert (names(everything), names(picked)) == ({"second", "third"}, {"third"})
            for number in range(20):
                await client.create(CONFIG_MAPS, "default", config(f"unseen-{number}"))
            await passing(timedelta(hours=10))
            await client.delete(PODS, "default", "third", grace_period_seconds=0)
            await quiet()
            assert (names(everything), names(picked)) == ({"second"}, set())
            assert (everything.list_count, picked.list_count) == (1, 1)


@on_virtual_time
async def test_our_own_writes_to_the_embedded_server_are_seen_before_its_events() -> None:
    async with serving() as served:
        changes: list[tuple[bool, bool]] = []

        def note(old: Pod | None, new: Pod | None) -> None:
            changes.append((old is not None, new is not None))

        informer = Informer(served.client, PODS, Pod, on_change=note)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(informer.run())
            await informer.wait_synced()
            made = await served.client.create(PODS, "default", pod("a"), decode_as=Pod)
            informer.store.apply_own_write(made)
            assert informer.store.get("default", "a") is not None
            await served.client.delete(PODS, "default", "a", grace_period_seconds=0)
            informer.store.apply_own_deletion("default", "a", made.metadata.uid)
            assert informer.store.get("default", "a") is None
            await quiet()
            assert changes == [(False, True), (True, False)]
            assert not informer.store._tombstones
            running.cancel()


def names(informer: Informer[Pod]) -> set[str]:
    return {found.metadata.name for found in informer.store.all()}


@asynccontextmanager
async def informed(client: KubeClient, labels: str) -> AsyncIterator[tuple[Informer[Pod], Informer[Pod]]]:
    picked, everything = Informer(client, PODS, Pod, labels=labels), Informer(client, PODS, Pod)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer.run()) for informer in (picked, everything)]
        for informer in (picked, everything):
            await informer.wait_synced()
        await quiet()
        yield picked, everything
        for task in running:
            task.cancel()
