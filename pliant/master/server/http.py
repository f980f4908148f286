"""The HTTP API of the master: JSON for members who carry the keys of the job, metrics and health for monitoring."""

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
from pliant.master.checkpoint import MasterSuperseded
from pliant.master.data.dispatcher import DatasetConflict, UnknownDataset
from pliant.master.data.shards import DatasetSpec
from pliant.master.members.membership import WORKER_TYPES
from pliant.master.model import MasterBusy
from pliant.master.server.authentication import ApiKeys, ConnectionGuard, find_key_problem, required_purpose
from pliant.master.server.messages import (
    DatasetRegistration,
    HeartbeatRequest,
    RendezvousJoinRequest,
    ShardReport,
    ShardRequest,
    decode_message,
)
from pliant.master.server.metrics import render_metrics
from pliant.master.server.notifier import LongPollNotifier
from pliant.runtime.metrics import METRICS_CONTENT_TYPE

if TYPE_CHECKING:
    from pliant.master.server.service import MasterService

SERVICE_TICK_SECONDS = 0.1
CONNECTION_CHECK_SECONDS = 1.0
LINGERING_SECONDS = 1.0
"""How long the rest of a rejected body is read, so that the client can read the response."""
MAX_LONG_POLL_SECONDS = 60.0
MAX_REQUEST_BODY_BYTES = 256 * 1024
SHUTDOWN_TIMEOUT_SECONDS = 1.0
IDLE_TIMEOUT_SECONDS = 60.0  # for the headers of a request, and between two requests
JOB_UID_HEADER = "Pliant-Job-Uid"

RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


async def serve_master_api(
    service: MasterService, keys: ApiKeys, host: str | None, port: int, on_listening: Callable[[int], None] | None
) -> None:
    """Serve until cancelled, and save the state at the end; `on_listening` gets the port."""
    api = MasterHttpApi(service, keys)
    runner = web.AppRunner(
        api.build_application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=SHUTDOWN_TIMEOUT_SECONDS,
        lingering_time=LINGERING_SECONDS,
        auto_decompress=False,  # the limit of a body is the limit of what is received
        keepalive_timeout=IDLE_TIMEOUT_SECONDS,
    )
    await runner.setup()
    if runner.server is not None:
        api.connections = ConnectionGuard(runner.server)
    try:
        site = web.TCPSite(runner, host, port, backlog=2048)
        await site.start()
        if on_listening is not None:
            on_listening(runner.addresses[0][1])
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(service.checkpointer.save_changes_forever())
            tasks.create_task(_tick_forever(service))
            tasks.create_task(api.check_connections_forever())
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        await runner.cleanup()
        with suppress(ApiError, MasterSuperseded):
            await service.checkpointer.save_if_changed()


async def _tick_forever(service: MasterService) -> None:
    while True:
        service.tick()
        await asyncio.sleep(SERVICE_TICK_SECONDS)


class MasterHttpApi:
    def __init__(self, service: MasterService, keys: ApiKeys) -> None:
        self._service = service
        self._keys = keys
        self.connections: ConnectionGuard | None = None
        self._membership_cache: tuple[int, bytes] = (-1, b"")

    def build_application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_REQUEST_BODY_BYTES, middlewares=[self._check_request])
        application.add_routes(
            [
                web.post("/v1/datasets", self._register_dataset),
                web.get("/v1/datasets", self._list_datasets),
                web.post("/v1/datasets/{name}/next", self._next_shard),
                web.post("/v1/datasets/{name}/report", self._report_shards),
                web.post("/v1/heartbeat", self._heartbeat),
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
        """End all long polls, so that members repeat them with the next master."""
        service = self._service
        waited_for = service.shards_notifier, service.members_notifier, service.rendezvous_notifier, service.ps_notifier
        for notifier in waited_for:
            notifier.notify_all()

    async def check_connections_forever(self) -> None:
        while True:
            await asyncio.sleep(CONNECTION_CHECK_SECONDS)
            if self.connections is not None:
                self.connections.close_untrusted(asyncio.get_running_loop().time())

    @web.middleware
    async def _check_request(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        """Check the key before the body is read; convert errors to responses."""
        purpose = required_purpose(request.method, request.path)
        if purpose is not None:
            problem = find_key_problem(self._keys, purpose, request.headers.get("Authorization", ""))
            if problem:
                response = _error_response(401, problem)
                response.headers["WWW-Authenticate"] = "Bearer"
                response.force_close()
                return response
            if self.connections is not None:
                self.connections.trust(request.protocol)
        return await self._check_uid_and_errors(request, handler)

    async def _check_uid_and_errors(self, request: web.Request, handler: RequestHandler) -> web.StreamResponse:
        uid = request.headers.get(JOB_UID_HEADER)
        if uid and uid != (job_uid := self._service.job_uid):
            return _error_response(409, f"{JOB_UID_HEADER}: this master serves the job with uid {job_uid}, not {uid}")
        try:
            return await handler(request)
        except UnknownDataset as error:
            return _error_response(404, str(error))
        except DatasetConflict as error:
            return _error_response(409, str(error))
        except MasterBusy as error:
            return _error_response(429, str(error))
        except UserError as error:
            return _error_response(400, str(error))
        except web.HTTPRequestEntityTooLarge:
            return _error_response(413, f"body: must have at most {MAX_REQUEST_BODY_BYTES} bytes")
        except web.HTTPException as error:
            return _error_response(error.status, f"{request.method} {request.path}: {error.reason}")

    async def _register_dataset(self, request: web.Request) -> web.Response:
        message = decode_message(await request.read(), DatasetRegistration)
        spec = DatasetSpec(**msgspec.structs.asdict(message))
        self._service.register_dataset(spec)
        return _json_response({"shards": spec.total_shards, "shards_per_epoch": spec.shards_per_epoch})

    async def _list_datasets(self, request: web.Request) -> web.Response:
        datasets = [
            {
                "name": data.spec.name,
                "shards": data.spec.total_shards,
                "done": data.done_count,
                "assigned": data.assigned_count,
                "available": data.available_count,
            }
            for data in self._service.dispatcher.datasets
        ]
        return _json_response({"datasets": datasets, "returned": self._service.dispatcher.returned_count})

    async def _next_shard(self, request: web.Request) -> web.Response:
        """Return a shard as soon as one is available; none after the timeout, or when the dataset is `completed`."""
        name, message = request.match_info["name"], decode_message(await request.read(), ShardRequest)
        service, holder, deadline = self._service, message.sender, self._service.time() + message.wait
        service.record_shard_report(name, holder, message.done, message.failed)
        while True:
            shard = service.take_shard(name, holder, message.holding)
            if shard is not None:
                return _json_response({"shard": shard._asdict(), "completed": False})
            timeout, is_done = deadline - service.time(), service.dispatcher.get_dataset(name).is_done
            if is_done or timeout <= 0:
                return _json_response({"shard": None, "completed": is_done})
            await service.shards_notifier.wait(timeout)

    async def _report_shards(self, request: web.Request) -> web.Response:
        message = decode_message(await request.read(), ShardReport)
        self._service.record_shard_report(request.match_info["name"], message.sender, message.done, message.failed)
        return _json_response({})

    async def _heartbeat(self, request: web.Request) -> web.Response:
        return _json_response(self._service.handle_heartbeat(decode_message(await request.read(), HeartbeatRequest)))

    async def _join_rendezvous(self, request: web.Request) -> web.Response:
        """Return the rank in the next round once it has closed; before, a ticket for the next request."""
        message = decode_message(await request.read(), RendezvousJoinRequest)
        service, holder, rendezvous = self._service, message.sender, self._service.rendezvous
        if holder.member.type not in WORKER_TYPES:
            raise InvalidSpec("member", f"{holder.member}: only chiefs and workers can join a rendezvous")
        deadline, ticket = service.time() + message.wait, message.ticket
        try:
            if (
                ticket is None
                or ticket != rendezvous.round_number
                or rendezvous.rank_in_closed_round(holder.member) is None
            ):
                ticket = service.join_rendezvous(holder, message.address or request.remote or "")
            while rendezvous.round_number < ticket and (timeout := deadline - service.time()) > 0:
                await service.rendezvous_notifier.wait(timeout)
        except asyncio.CancelledError:
            rendezvous.cancel_join(holder.member)
            raise
        rank = rendezvous.rank_in_closed_round(holder.member)
        if rendezvous.round_number != ticket or rank is None:
            return _json_response({"ticket": rendezvous.round_number + 1})
        return _json_response(
            {
                "round": rendezvous.round_number,
                "id": rendezvous.closed_round_id,
                "rank": rank,
                "world_size": len(rendezvous.slots),
                "leader": rendezvous.slots[0].address,
            }
        )

    async def _get_membership(self, request: web.Request) -> web.Response:
        """Return the members as soon as the generation differs from the one in the request."""
        service, membership, known = self._service, self._service.membership, _query_number(request, "generation")
        if membership.advance_past_reported_generation(int(known)):
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
        deadline = self._service.time() + min(_query_number(request, "wait", 20.0), MAX_LONG_POLL_SECONDS)
        while not has_changed() and (timeout := deadline - self._service.time()) > 0:
            await notifier.wait(timeout)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=render_metrics(self._service), headers={"Content-Type": METRICS_CONTENT_TYPE})

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


def _json_response(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _error_response(status: int, message: str) -> web.Response:
    body = msgspec.json.encode({"error": message})
    return web.Response(status=status, body=body, content_type="application/json")
