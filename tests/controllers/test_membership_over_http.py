"""Replicas that ask for the membership over HTTP, also those that behave badly."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pliant.runtime.clock import SystemClock
from pliant.runtime.http_server import serve_requests
from tests.controllers.replicas import Job, departure, job_with_replicas


@asynccontextmanager
async def served(size: int = 4) -> AsyncIterator[tuple[Job, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    async with job_with_replicas(size, SystemClock()) as job, job.led(), serve_requests(job.desk.receive, listener):
        yield job, listener.getsockname()[1]


async def get(job: Job, port: int, replica: str, query: str) -> Any:
    reader, writer = await open_request(job, port, replica, query)
    try:
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        return json.loads(body)
    finally:
        writer.close()


async def open_request(
    job: Job, port: int, replica: str, query: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {job.path}{replica}?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {job.token}\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


async def wait_until(job: Job, waiting: int) -> None:
    async with asyncio.timeout(10):
        while job.desk.membership.waiting_count != waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_two_hundred_replicas_learn_of_a_change_within_a_second() -> None:
    async with served(200) as (job, port):
        await job.publish(1, "0-199")
        loop = asyncio.get_running_loop()
        answered: list[float] = []

        async def ask(index: int) -> None:
            answer = await get(job, port, f"worker-{index}", "generation=1&wait=60")
            assert (answer["generation"], len(answer["members"])) == (2, 199)
            assert answer["rank"] == (index if index < 199 else None)
            answered.append(loop.time())

        async with asyncio.TaskGroup() as tasks:
            for index in range(200):
                tasks.create_task(ask(index))
            await wait_until(job, 200)
            changed = loop.time()
            await job.publish(2, "0-198", {"uid": departure(199)})
        assert sorted(answered)[197] - changed < 1


async def test_a_replica_that_disconnects_stops_waiting_at_once() -> None:
    async with served() as (job, port):
        await job.publish(1, "0-3")
        connections = [await open_request(job, port, f"worker-{index}", "generation=1&wait=60") for index in range(3)]
        await wait_until(job, 3)
        connections[0][1].close()
        connections[1][1].transport.abort()
        await wait_until(job, 1)
        connections[2][1].close()
        await wait_until(job, 0)
