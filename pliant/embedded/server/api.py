"""The whole API of the embedded cluster, free of HTTP: a request in, a reply or a stream out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pliant.embedded.catalog.facts import Facts
from pliant.embedded.catalog.resources import Catalog
from pliant.embedded.server import deletion, eviction, metrics, pods, reads, scale, sessions
from pliant.embedded.server.addresses import SERVICES, Addresses
from pliant.embedded.server.admission import CRDS, Admission
from pliant.embedded.server.answers import json_reply, refusal
from pliant.embedded.server.calls import Call, read_path
from pliant.embedded.server.expiry import EventExpiry
from pliant.embedded.server.garbage import GarbageCollector
from pliant.embedded.server.lifecycle import NAMESPACES
from pliant.embedded.server.logs import LogSource
from pliant.embedded.server.refusals import not_allowed, senseless
from pliant.embedded.server.reviews import USER, review
from pliant.embedded.server.tokenrequests import request_token
from pliant.embedded.server.tokens import Tokens, User
from pliant.embedded.server.watches import open_watch
from pliant.embedded.server.writes import Writer
from pliant.embedded.storage.records import Event, Key, Record
from pliant.embedded.storage.store import Store, Transaction
from pliant.errors import ApiError
from pliant.kube.transport import Reply, Request, StreamReply
from pliant.runtime.clock import Clock

_SPECIAL = frozenset({"log", "binding", "scale", "exec", "attach", "eviction", "portforward", "token"})
FIRST_NAMESPACES = ("default", "kube-public", "kube-system")


class ApiServer:
    """Serves the objects of one store under the kinds of one catalog."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        *,
        logs: LogSource | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.store = store
        self.catalog = catalog
        self.logs = logs
        self.sessions: sessions.SessionSource | None = None
        """Who runs commands in pods, once there is a node that can."""
        self.usage: metrics.UsageSource | None = None
        """Who measures what pods use, once there is a node that can."""
        self._clock = clock
        self.tokens = Tokens(clock)
        self._facts = Facts(catalog)
        self._addresses = Addresses()
        self._writer = Writer(store, Admission(self._addresses), clock, chance or random.Random())

    @classmethod
    @asynccontextmanager
    async def started(
        cls,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        *,
        logs: LogSource | None = None,
        chance: random.Random | None = None,
    ) -> AsyncIterator[ApiServer]:
        """A prepared server; garbage and old events are cleared away for as long as it is used."""
        api = cls(store, catalog, clock, logs=logs, chance=chance)
        await api.prepare()
        try:
            async with asyncio.TaskGroup() as tasks:
                keepers = (GarbageCollector(store, clock).run(), EventExpiry(store).run())
                running = [tasks.create_task(keeper) for keeper in keepers]
                try:
                    yield api
                finally:
                    for keeper in running:
                        keeper.cancel()
        except BaseExceptionGroup as group:
            # What went wrong in the caller's block is the caller's own error, not a group of one.
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None

    async def prepare(self) -> None:
        """Take up what the store holds and make the namespaces every cluster has."""
        visible = self.store.visible
        self._addresses.load(visible.listing(SERVICES))
        # In the order in which they came: kubectl takes the first of several kinds of one name, before and after.
        for definition in sorted(visible.listing(CRDS), key=_coming):
            self.catalog.put_crd(definition.decode())
        self.store.listen(self._addresses.committed)
        self.store.listen(self._follow_definitions)
        await self.store.write(self._add_first_namespaces)

    async def handle(self, request: Request, user: User = USER) -> Reply | StreamReply:
        """Answer a request of a user; whatever is wrong with it comes back as a Status."""
        try:
            return await self._answer(request, user)
        except ApiError as error:
            return refusal(error)

    def open_session(self, request: Request, command: Sequence[str]) -> sessions.Opening:
        """A session in a container, for whoever can carry it; raises `ApiError` where there can be none."""
        return sessions.opening(self.store.visible, read_path(self.catalog, request), command, self.sessions)

    def open_ports(self, request: Request) -> sessions.Connect:
        """How to reach the ports of a pod; raises `ApiError` where nothing runs."""
        return sessions.forwarding(self.store.visible, read_path(self.catalog, request), self.sessions)

    async def _answer(self, request: Request, user: User) -> Reply | StreamReply:
        fact = self._facts.answer(request) if request.method == "GET" else None
        if fact is not None:
            return fact
        asked = request.path.strip("/").split("/")
        if request.method == "POST" and len(asked) == 4 and asked[0] == "apis":
            answer = review(*asked[1:], user=user)
            if answer is not None:
                return json_reply(answer, 201)
        call = read_path(self.catalog, request)
        if call.kind.group == metrics.GROUP:
            return await metrics.answer(self.store.visible, call, self.usage, self._clock.now())
        if call.subresource in _SPECIAL or call.kind.kind == "Binding":
            return await self._special(call)
        return await (self._one(call) if call.name else self._many(call))

    async def _one(self, call: Call) -> Reply | StreamReply:
        match call.request.method:
            case "GET" | "HEAD":
                return reads.read(self.store.visible, call, self._clock.now())
            case "PUT":
                return await self._writer.update(call)
            case "PATCH":
                return await self._writer.patch(call)
            case "DELETE" if not call.subresource:
                return await deletion.delete_one(self.store, call, self._clock)
            case _:
                raise not_allowed()

    async def _many(self, call: Call) -> Reply | StreamReply:
        match call.request.method:
            case "GET" if call.flag("watch"):
                return open_watch(self.store.visible, call, self._clock)
            case "GET" | "HEAD":
                return reads.read_list(self.store.visible, call, self._clock.now())
            case "POST" if call.namespace or not call.kind.namespaced:
                return await self._writer.create(call)
            case "DELETE":
                return await deletion.delete_collection(self.store, call, self._clock)
            case _:
                raise not_allowed()

    async def _special(self, call: Call) -> Reply | StreamReply:
        match call.subresource or "binding", call.request.method:
            case "log", "GET":
                return pods.read_log(self.store.visible, call, self.logs, self._clock)
            case "binding", "POST":
                return await pods.bind(self.store, call, self._clock)
            case "scale", "GET":
                return scale.read_scale(self.store.visible, call)
            case "scale", "PUT" | "PATCH":
                return await scale.write_scale(self._writer, call)
            case "eviction", "POST":
                return await eviction.evict(self.store, call, self._clock)
            case "token", "POST":
                return request_token(self.store.visible, call, self.tokens, self._clock)
            case "exec" | "attach" | "portforward", _:
                raise senseless("Upgrade request required")
            case _:
                raise not_allowed()

    def _follow_definitions(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.after.key.resource == CRDS:
                if event.gone:
                    self.catalog.drop_crd(event.after.key.name)
                else:
                    self.catalog.put_crd(event.after.decode())

    def _add_first_namespaces(self, transaction: Transaction) -> None:
        kind = self.catalog.find("", "v1", "namespaces")
        for name in FIRST_NAMESPACES:
            if kind is not None and transaction.get(Key(NAMESPACES, "", name)) is None:
                fresh = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                self._writer.add(transaction, kind, "", fresh)


def _coming(definition: Record) -> tuple[str, int]:
    """When an object came: times are whole seconds, so the write decides within one."""
    return definition.decode()["metadata"]["creationTimestamp"], definition.version
