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
from pliant.master.checkpoint.checkpointer import MasterSuperseded
from pliant.master.data.dispatcher import DatasetConflict, UnknownDataset
from pliant.master.data.shards import DatasetSpec
from pliant.master.members.rendezvous import WORKER_TYPES
from pliant.master.server.messages import (
    DatasetRegistration,
    HeartbeatRequest,
    RendezvousJoinRequest,
    ShardReport,
    ShardRequest,
    decode_message,
)
from pliant.master.server.metrics import render_metrics
from pliant.runtime.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from pliant.master.server.notifier import LongPollNotifier
    from pliant.master.server.service import MasterService

TICK_SECONDS = 0.1
MAX_WAIT_SECONDS = 60.0
MAX_BODY_BYTES = 256 * 1024
SHUTDOWN_TIMEOUT_SECONDS = 1.0
UID_HEADER = "Pliant-Job-Uid"

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


async def serve(
    service: MasterService, host: str | None, port: int, on_listening: Callable[[int], None] | None
) -> None:
    """Serve until cancelled, telling on which port; what is to be remembered is saved to the last."""
    front = MasterHttpApi(service)
    runner = web.AppRunner(
        front.application(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_SECONDS
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=2048)
        await site.start()
        if on_listening is not None:
            on_listening(runner.addresses[0][1])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(service.checkpointer.run())
            tasks.create_task(_tick_forever(service))
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        await runner.cleanup()
        with suppress(ApiError, MasterSuperseded):
            await service.checkpointer.save_if_changed()


async def _tick_forever(service: MasterService) -> None:
    while True:
        service.tick()
        await asyncio.sleep(TICK_SECONDS)


class MasterHttpApi:
    """Answers members."""

    def __init__(self, service: MasterService) -> None:
        self._service = service
        self._membership_cache: tuple[int, bytes] = (-1, b"")

    def application(self) -> web.Application:
        """Every path there is."""
        application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._check_uid_and_errors])
        application.add_routes(
            [
                web.post("/v1/datasets", self._register_dataset),
                web.get("/v1/datasets", self._list_datasets),
                web.post("/v1/datasets/{name}/next", self._next_shard),
                web.post("/v1/datasets/{name}/report", self._report_shards),
                web.post("/v1/beat", self._heartbeat),
                web.post("/v1/rendezvous", self._join_rendezvous),
                web.get("/v1/membership", self._get_membership),
                web.get("/v1/ps", self._get_parameter_servers),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._health),
            ]
        )
        application.on_shutdown.append(self._wake_waiters)
        return application

    async def _wake_waiters(self, application: web.Application) -> None:
        """Those who wait ask again, and then somebody else."""
        service = self._service
        for bell in (
            service.shards_notifier,
            service.members_notifier,
            service.rendezvous_notifier,
            service.ps_notifier,
        ):
            bell.notify_all()

    @web.middleware
    async def _check_uid_and_errors(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        uid = request.headers.get(UID_HEADER)
        if uid and uid != self._service.job_uid:
            return _error_response(
                409, f"{UID_HEADER}: this is the master of a job with uid {self._service.job_uid}, not {uid}"
            )
        try:
            return await handler(request)
        except UnknownDataset as problem:
            return _error_response(404, str(problem))
        except DatasetConflict as problem:
            return _error_response(409, str(problem))
        except UserError as problem:
            return _error_response(400, str(problem))
        except web.HTTPException as problem:
            return _error_response(problem.status, f"{request.method} {request.path}: {problem.reason}")

    async def _register_dataset(self, request: web.Request) -> web.Response:
        wanted = decode_message(await request.read(), DatasetRegistration)
        spec = DatasetSpec(**msgspec.structs.asdict(wanted))
        self._service.register_dataset(spec)
        return _json_response({"shards": spec.total_shards, "shards_per_epoch": spec.shards_per_epoch})

    async def _list_datasets(self, request: web.Request) -> web.Response:
        sets = [
            {
                "name": data.spec.name,
                "shards": data.spec.total_shards,
                "done": data.done_count,
                "held": data.held_count,
                "left": data.available_count,
            }
            for data in self._service.dispatcher.datasets
        ]
        return _json_response({"datasets": sets, "returned": self._service.dispatcher.returned_count})

    async def _next_shard(self, request: web.Request) -> web.Response:
        """One more shard, as soon as there is one; none if time is up, and `over` once all are done."""
        name, asked = request.match_info["name"], decode_message(await request.read(), ShardRequest)
        service, holder, until = self._service, asked.holder, self._service.time() + asked.wait
        service.report_shards(name, holder, asked.done, asked.failed)
        while True:
            shard = service.take_shard(name, holder, asked.holding)
            if shard is not None:
                return _json_response({"shard": shard._asdict(), "over": False})
            left = until - service.time()
            if service.dispatcher.get_dataset(name).is_done or left <= 0:
                return _json_response({"shard": None, "over": service.dispatcher.get_dataset(name).is_done})
            await service.shards_notifier.wait(left)

    async def _report_shards(self, request: web.Request) -> web.Response:
        asked = decode_message(await request.read(), ShardReport)
        self._service.report_shards(request.match_info["name"], asked.holder, asked.done, asked.failed)
        return _json_response({})

    async def _heartbeat(self, request: web.Request) -> web.Response:
        return _json_response(self._service.handle_heartbeat(decode_message(await request.read(), HeartbeatRequest)))

    async def _join_rendezvous(self, request: web.Request) -> web.Response:
        """A place in the next round once it has closed; until then, the ticket to ask with again."""
        asked = decode_message(await request.read(), RendezvousJoinRequest)
        service, holder, rounds = self._service, asked.holder, self._service.rendezvous
        if holder.member.type not in WORKER_TYPES:
            raise InvalidSpec("member", f"{holder.member}: only chiefs and workers meet in rounds")
        until, ticket = service.time() + asked.wait, asked.ticket
        try:
            if ticket is None or ticket != rounds.round_number or rounds.rank_in_round(holder.member) is None:
                ticket = service.join_rendezvous(holder, asked.address or _peer_address(request))
            while rounds.round_number < ticket and (left := until - service.time()) > 0:
                await service.rendezvous_notifier.wait(left)
        except asyncio.CancelledError:
            rounds.cancel_join(holder.member)
            raise
        place = rounds.rank_in_round(holder.member)
        if rounds.round_number != ticket or place is None:
            return _json_response({"ticket": rounds.round_number + 1})
        return _json_response(
            {
                "round": rounds.round_number,
                "id": rounds.round_id,
                "rank": place,
                "world_size": len(rounds.slots),
                "leader": rounds.slots[0].address,
            }
        )

    async def _get_membership(self, request: web.Request) -> web.Response:
        """Who is there, as soon as the generation is another than the one that the asker knows."""
        service, membership, known = self._service, self._service.membership, _query_number(request, "generation")
        if membership.advance_generation(int(known)):
            service.request_save()
        await self._wait_until(lambda: membership.generation != known, service.members_notifier, request)
        if self._membership_cache[0] != membership.generation:
            members = [member._asdict() for member in membership.members]
            body = msgspec.json.encode({"generation": membership.generation, "members": members})
            self._membership_cache = (membership.generation, body)
        return web.Response(body=self._membership_cache[1], content_type="application/json")

    async def _get_parameter_servers(self, request: web.Request) -> web.Response:
        service, known = self._service, _query_number(request, "version")
        await self._wait_until(lambda: service.parameter_servers.version != known, service.ps_notifier, request)
        return _json_response({"version": service.parameter_servers.version, "hosts": service.parameter_servers.hosts})

    async def _wait_until(
        self, has_changed: Callable[[], bool], notifier: LongPollNotifier, request: web.Request
    ) -> None:
        until = self._service.time() + min(_query_number(request, "wait", 20.0), MAX_WAIT_SECONDS)
        while not has_changed() and (left := until - self._service.time()) > 0:
            await notifier.wait(left)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=render_metrics(self._service), headers={"Content-Type": CONTENT_TYPE})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")


def _query_number(request: web.Request, name: str, default: float = -1) -> float:
    text = request.query.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidSpec(name, f"{text!r} is not a number")
    return number


def _peer_address(request: web.Request) -> str:
    return request.remote or ""


def _json_response(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _error_response(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"error": message})
    return web.Response(status=status, body=body, content_type="application/json")
