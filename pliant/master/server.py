"""The master's HTTP API: JSON for members, text for monitors. Whoever waits costs nothing."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pliant.errors import ApiError, InvalidSpec, UserError
from pliant.master.figures import metrics
from pliant.master.memory import Superseded
from pliant.master.rounds import WORKING_TYPES
from pliant.master.shards import DataSpec
from pliant.master.wire import BeatReport, Joining, Registration, ShardReport, ShardRequest, parsed
from pliant.master.work import UnknownSet, UnlikeSet
from pliant.runtime.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from pliant.master.bell import Bell
    from pliant.master.service import Service

TICK = 0.1
LONGEST_WAIT = 60.0
LARGEST_BODY = 256 * 1024
SHUTDOWN_SECONDS = 1.0
UID_HEADER = "Pliant-Job-Uid"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


async def serve(service: Service, host: str | None, port: int, ready: Callable[[int], None] | None) -> None:
    """Serve until cancelled, telling on which port; what is to be remembered is saved to the last."""
    front = Front(service)
    runner = web.AppRunner(
        front.application(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=2048)
        await site.start()
        if ready is not None:
            ready(runner.addresses[0][1])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(service.keeper.run())
            tasks.create_task(_ticking(service))
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        await runner.cleanup()
        with suppress(ApiError, Superseded):
            await service.keeper.save()


async def _ticking(service: Service) -> None:
    while True:
        service.tick()
        await asyncio.sleep(TICK)


class Front:
    """Answers members."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._members: tuple[int, bytes] = (-1, b"")

    def application(self) -> web.Application:
        """Every path there is."""
        application = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._guard])
        application.add_routes(
            [
                web.post("/v1/datasets", self._register),
                web.get("/v1/datasets", self._list_sets),
                web.post("/v1/datasets/{name}/next", self._next),
                web.post("/v1/datasets/{name}/report", self._report),
                web.post("/v1/beat", self._beat),
                web.post("/v1/rendezvous", self._join),
                web.get("/v1/membership", self._membership),
                web.get("/v1/ps", self._ps),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._health),
            ]
        )
        application.on_shutdown.append(self._let_go)
        return application

    async def _let_go(self, application: web.Application) -> None:
        """Those who wait ask again, and then somebody else."""
        service = self._service
        for bell in (service.shards_bell, service.members_bell, service.rounds_bell, service.ps_bell):
            bell.ring()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        uid = request.headers.get(UID_HEADER)
        if uid and uid != self._service.uid:
            return _refusal(
                409, f"{UID_HEADER}: this is the master of a job with uid {self._service.uid}, not {uid}"
            )
        try:
            return await handler(request)
        except UnknownSet as problem:
            return _refusal(404, str(problem))
        except UnlikeSet as problem:
            return _refusal(409, str(problem))
        except UserError as problem:
            return _refusal(400, str(problem))
        except web.HTTPException as problem:
            return _refusal(problem.status, f"{request.method} {request.path}: {problem.reason}")

    async def _register(self, request: web.Request) -> web.Response:
        wanted = parsed(await request.read(), Registration)
        spec = DataSpec(**msgspec.structs.asdict(wanted))
        self._service.register(spec)
        return _answer({"shards": spec.total, "shards_per_epoch": spec.per_epoch})

    async def _list_sets(self, request: web.Request) -> web.Response:
        sets = [
            {
                "name": data.spec.name,
                "shards": data.spec.total,
                "done": data.done,
                "held": data.held,
                "left": data.left,
            }
            for data in self._service.work.sets
        ]
        return _answer({"datasets": sets, "returned": self._service.work.returned})

    async def _next(self, request: web.Request) -> web.Response:
        """One more shard, as soon as there is one; none if time is up, and `over` once all are done."""
        name, asked = request.match_info["name"], parsed(await request.read(), ShardRequest)
        service, holder, until = self._service, asked.holder, self._service.time() + asked.wait
        service.report(name, holder, asked.done, asked.failed)
        while True:
            shard = service.take(name, holder, asked.holding)
            if shard is not None:
                return _answer({"shard": shard._asdict(), "over": False})
            left = until - service.time()
            if service.work.find(name).is_done or left <= 0:
                return _answer({"shard": None, "over": service.work.find(name).is_done})
            await service.shards_bell.wait(left)

    async def _report(self, request: web.Request) -> web.Response:
        asked = parsed(await request.read(), ShardReport)
        self._service.report(request.match_info["name"], asked.holder, asked.done, asked.failed)
        return _answer({})

    async def _beat(self, request: web.Request) -> web.Response:
        return _answer(self._service.beat(parsed(await request.read(), BeatReport)))

    async def _join(self, request: web.Request) -> web.Response:
        """A place in the next round once it has closed; until then, the ticket to ask with again."""
        asked = parsed(await request.read(), Joining)
        service, holder, rounds = self._service, asked.holder, self._service.rounds
        if holder.node.type not in WORKING_TYPES:
            raise InvalidSpec("member", f"{holder.node}: only chiefs and workers meet in rounds")
        until, ticket = service.time() + asked.wait, asked.ticket
        try:
            if ticket is None or ticket != rounds.number or rounds.seat_of(holder.node) is None:
                ticket = service.join(holder, asked.address or _peer(request))
            while rounds.number < ticket and (left := until - service.time()) > 0:
                await service.rounds_bell.wait(left)
        except asyncio.CancelledError:
            rounds.leave(holder.node)
            raise
        place = rounds.seat_of(holder.node)
        if rounds.number != ticket or place is None:
            return _answer({"ticket": rounds.number + 1})
        return _answer(
            {
                "round": rounds.number,
                "id": rounds.id,
                "rank": place,
                "world_size": len(rounds.seats),
                "leader": rounds.seats[0].address,
            }
        )

    async def _membership(self, request: web.Request) -> web.Response:
        """Who is there, as soon as the generation is another than the one that the asker knows."""
        service, membership, known = self._service, self._service.membership, _number(request, "generation")
        if membership.hear(int(known)):
            service.remember()
        await self._until(lambda: membership.generation != known, service.members_bell, request)
        if self._members[0] != membership.generation:
            members = [member._asdict() for member in membership.members]
            body = msgspec.json.encode({"generation": membership.generation, "members": members})
            self._members = (membership.generation, body)
        return web.Response(body=self._members[1], content_type="application/json")

    async def _ps(self, request: web.Request) -> web.Response:
        service, known = self._service, _number(request, "version")
        await self._until(lambda: service.ps.version != known, service.ps_bell, request)
        return _answer({"version": service.ps.version, "hosts": service.ps.hosts})

    async def _until(self, is_news: Callable[[], bool], bell: Bell, request: web.Request) -> None:
        until = self._service.time() + min(_number(request, "wait", 20.0), LONGEST_WAIT)
        while not is_news() and (left := until - self._service.time()) > 0:
            await bell.wait(left)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=metrics(self._service), headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")


def _number(request: web.Request, name: str, default: float = -1) -> float:
    text = request.query.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidSpec(name, f"{text!r} is not a number")
    return number


def _peer(request: web.Request) -> str:
    return request.remote or ""


def _answer(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _refusal(status: int, problem: str) -> web.Response:
    body = msgspec.json.encode({"error": problem})
    return web.Response(status=status, body=body, content_type="application/json")
