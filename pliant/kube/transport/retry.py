"""The one place that asks again: only where asking twice cannot act twice, and not for long."""

from __future__ import annotations

import asyncio
import math
import random

from pliant.errors import ApiError, ServerError, TooManyRequests, Unreachable
from pliant.kube.codec import error_from_response
from pliant.kube.transport.base import Reply, Request, Transport
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter

RETRY_TIMEOUT_SECONDS = 10.0
"""How long one call may go on asking; whoever needs more plans it himself."""
MAX_ATTEMPTS = 4
INITIAL_BACKOFF_SECONDS = 0.1

_UNAVAILABLE_STATUSES = (502, 503, 504)


async def send_with_retries(
    transport: Transport, request: Request, rng: random.Random, write_limiter: AdaptiveWriteLimiter | None
) -> Reply:
    """Bring a request to a successful reply; a write waits for its turn each time it is sent.

    A request that was turned away (429) is repeated after the wait asked for: it has not begun. A read is also
    repeated when no answer came or the server is away. A write is not, for it may have been carried out: its
    caller holds a precondition, or a name that makes repetition a conflict.
    """
    clock = asyncio.get_running_loop().time
    deadline = math.inf
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if write_limiter is None or request.method == "GET":
            deadline = min(deadline, clock() + RETRY_TIMEOUT_SECONDS)
            answer = await _send_once(transport, request)
        else:
            async with write_limiter.write_slot(urgent=attempt > 1 or _is_status_write(request)) as turn:
                # To wait for the first turn is not to ask.
                deadline = min(deadline, clock() + RETRY_TIMEOUT_SECONDS)
                answer = await _send_once(transport, request)
                turn.record_response(answer if isinstance(answer, ApiError) else None)
        if isinstance(answer, Reply):
            return answer
        if attempt == MAX_ATTEMPTS or not _is_retryable(request, answer):
            raise answer
        pause = _retry_delay(answer, attempt) * rng.uniform(1.0, 1.25)
        if clock() + pause > deadline:
            raise answer
        await asyncio.sleep(pause)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _send_once(transport: Transport, request: Request) -> Reply | ApiError:
    try:
        reply = await transport.send(request)
    except Unreachable as problem:
        return problem
    return reply if reply.status < 300 else error_from_response(reply.status, reply.headers, reply.body)


def _is_status_write(request: Request) -> bool:
    """Whether others wait for this write: a status tells people how things are, and what is to be done next."""
    return request.path.endswith("/status")


def _is_retryable(request: Request, error: ApiError) -> bool:
    if isinstance(error, TooManyRequests):
        # Without a wait to keep, the refusal is about the object (a disruption budget), not about the load.
        return error.retry_after is not None
    is_away = isinstance(error, Unreachable) or (
        isinstance(error, ServerError) and error.status in _UNAVAILABLE_STATUSES
    )
    return is_away and request.method == "GET"


def _retry_delay(error: ApiError, attempt: int) -> float:
    return INITIAL_BACKOFF_SECONDS * 2.0 ** (attempt - 1) if error.retry_after is None else error.retry_after
