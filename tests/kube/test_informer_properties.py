from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.codec import decode_object
from pliant.kube.objects import Pod, object_identity
from pliant.kube.resources import PODS
from tests import virtual_time
from tests.kube.toy_server import LOST, ToyServer, line, status
from tests.virtual_time import passing, quiet

NAMES = ["a", "b"]
OURS = ["write", "write, reply late", "remove", "remove, reply late", "late replies"]
THEIRS = ["put", "delete", "bookmark", "others write"]
MISFORTUNES = [
    "end",
    "break",
    "break in a line",
    "expire",
    "forget",
    "break and forget",
    "refuse",
    "slow lists",
    "say again",
    "say all again",
]
STEP = st.tuples(
    st.sampled_from(OURS) | st.sampled_from(THEIRS) | st.sampled_from(MISFORTUNES),
    st.sampled_from(NAMES),
    st.sampled_from(["go on", "settle", "settle", "wait"]),
)
STEPS = st.lists(STEP, min_size=12, max_size=60)


class World:
    """A server, an informer on it, and a replica kept only by what `on_change` tells."""

    def __init__(self, *, streaming: bool) -> None:
        self.server = ToyServer()
        self.replica: dict[str, Pod] = {}
        self.shown: dict[str, int] = {}
        self.removed: set[str] = set()
        self.late: list[Callable[[], None]] = []
        self.informer = Informer(
            KubeClient(self.server),
            PODS,
            Pod,
            indexes={"label": lambda pod: pod.metadata.labels.values()},
            on_change=self.changed,
            streaming=streaming,
            rng=random.Random(0),
        )

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        some = new or old
        assert some is not None
        assert self.replica.get(some.metadata.name) == old
        assert old != new
        if new is None:
            assert some.metadata.uid in self.server.ended, "what is there was dropped"
            del self.replica[some.metadata.name]
        else:
            assert new.metadata.uid not in self.removed, "what we removed came back"
            assert object_identity(new).version > self.shown.get(new.metadata.name, 0), "time went back"
            self.shown[new.metadata.name] = object_identity(new).version
            self.replica[some.metadata.name] = new

    def write(self, name: str) -> Callable[[], None]:
        reply = decode_object(json.dumps(self.server.put(name, by="us")).encode(), Pod)
        return lambda: self.note_written(reply)

    def note_written(self, pod: Pod) -> None:
        self.informer.store.apply_own_write(pod)
        _, uid, version = object_identity(pod)
        told = self.informer.store.resource_version >= version
        assert told or uid in self.removed or self.shown[pod.metadata.name] >= version

    def remove(self, name: str) -> Callable[[], None]:
        if name not in self.server.objects:
            return lambda: None
        uid = self.server.delete(name)["metadata"]["uid"]

        def reply() -> None:
            known = self.informer.store.get("default", name)
            self.informer.store.apply_own_deletion("default", name, uid)
            if known is not None and known.metadata.uid == uid:
                self.removed.add(uid)

        return reply

    async def step(self, what: str, name: str, then: str) -> None:
        self.act(what, name)
        if then == "settle":
            await quiet()
        elif then == "wait":
            await passing(timedelta(seconds=0.7))

    def act(self, what: str, name: str) -> None:
        match what:
            case "put":
                self.server.put(name, by="them")
            case "delete" if name in self.server.objects:
                self.server.delete(name)
            case "write":
                self.write(name)()
            case "write, reply late":
                self.late.append(self.write(name))
            case "remove":
                self.remove(name)()
            case "remove, reply late":
                self.late.append(self.remove(name))
            case _:
                self.happen(what)

    def happen(self, what: str) -> None:
        server = self.server
        match what:
            case "late replies":
                self.reply_late()
            case "slow lists":
                server.list_delay = 0.0 if server.list_delay else 1.0
            case "break and forget":
                server.end_watches(LOST)
                server.pass_unseen(1)
                server.forget_history()
            case "refuse":
                server.refusals.append(LOST)
            case _ if what in self.simple:
                self.simple[what]()

    @property
    def simple(self) -> dict[str, Callable[[], None]]:
        server = self.server
        return {
            "bookmark": server.bookmark,
            "others write": lambda: server.pass_unseen(3),
            "end": server.end_watches,
            "break": lambda: server.end_watches(LOST),
            "break in a line": lambda: server.end_watches(LOST, half_a_line=True),
            "expire": lambda: server.say_in_stream(line("ERROR", status(410, "Expired"))),
            "forget": server.forget_history,
            "say again": lambda: server.say_again(1),
            "say all again": lambda: server.say_again(9),
        }

    def reply_late(self) -> None:
        for reply in self.late:
            reply()
        self.late.clear()


async def live_through(steps: list[tuple[str, str, str]], *, streaming: bool) -> None:
    world = World(streaming=streaming)
    task = asyncio.create_task(world.informer.run())
    for step in steps:
        await world.step(*step)
        assert not task.done()
    world.reply_late()
    await passing(timedelta(minutes=3))
    assert not task.done()
    store, server = world.informer.store, world.server
    wanted = {name: int(obj["metadata"]["resourceVersion"]) for name, obj in server.objects.items()}
    assert {pod.metadata.name: object_identity(pod).version for pod in store.all()} == wanted
    assert {name: object_identity(pod).version for name, pod in world.replica.items()} == wanted
    for label in ("us", "them"):
        filed = {pod.metadata.name for pod in store.by_index("label", label)}
        assert filed == {n for n, obj in server.objects.items() if obj["metadata"]["labels"] == {"by": label}}
    assert not store._tombstones
    task.cancel()


@settings(max_examples=200, deadline=None)
@given(STEPS, st.booleans())
def test_whatever_happens_the_store_ends_equal_to_the_server(
    steps: list[tuple[str, str, str]], streaming: bool
) -> None:
    virtual_time.run(live_through(steps, streaming=streaming))
