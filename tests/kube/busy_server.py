"""A server that turns away what is too much for it, and writes to it."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AbstractAsyncContextManager

from pliant.errors import TooManyRequests
from pliant.kube.client import KubeClient
from pliant.kube.resources import PODS
from pliant.kube.transport.base import Reply, Request, StreamReply
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter

ROUND_TRIP = 0.01


class BusyServer:
    """Works on so many requests at a time and turns every other one away at once."""

    def __init__(self, room: int, *, status: int = 429, retry_after: str = "1") -> None:
        self.room = room
        self.status = status
        self.retry_after = retry_after
        self.busy = 0
        self.busiest = 0
        self.accepted: list[str] = []
        self.refused: list[float] = []

    async def send(self, request: Request) -> Reply:
        if request.method != "GET" and self.busy >= self.room:
            self.refused.append(asyncio.get_running_loop().time())
            await asyncio.sleep(ROUND_TRIP / 10)
            return _reply({"kind": "Status", "message": "too much"}, self.status, {"Retry-After": self.retry_after})
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(ROUND_TRIP)
        finally:
            self.busy -= 1
        self.accepted.append(request.path)
        return _reply({"metadata": {"name": "a"}}, 201, {})

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        raise AssertionError("nobody watches")

    async def aclose(self) -> None: ...


def _reply(body: object, status: int, headers: dict[str, str]) -> Reply:
    return Reply(status=status, body=json.dumps(body).encode(), headers=headers)


def client_of(server: BusyServer, pace: AdaptiveWriteLimiter | None) -> KubeClient:
    return KubeClient(server, random.Random(1), pace)


async def create(client: KubeClient, count: int) -> int:
    """Create so many pods side by side; how many could not be created."""
    made = (client.create(PODS, "default", {"metadata": {"name": f"p{i}"}}) for i in range(count))
    ends = await asyncio.gather(*made, return_exceptions=True)
    failed = [end for end in ends if isinstance(end, BaseException)]
    assert all(isinstance(end, TooManyRequests) for end in failed), failed
    return len(failed)


def now() -> float:
    return asyncio.get_running_loop().time()
