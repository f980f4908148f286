"""Retries requests where a retry cannot act twice, for a limited time."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from pliant.errors import ApiError, ServerError, TooManyRequests, Unreachable
from pliant.kube.codec import error_from_response
from pliant.kube.transport.base import Reply, Request, Transport
from pliant.kube.transport.write_flows import DEFAULT_FLOW, WriteClass, WriteFlow, write_cost
from pliant.kube.transport.write_limiter import AdaptiveWriteLimiter, WriteSlot

RETRY_TIMEOUT_SECONDS = 10.0
MAX_ATTEMPTS = 4
INITIAL_BACKOFF_SECONDS = 0.1

_UNAVAILABLE_STATUSES = (502, 503, 504)


@dataclass(frozen=True, slots=True)
class WriteAdmission:
    """How the writes of a client wait for the limiter."""

    limiter: AdaptiveWriteLimiter
    flow: WriteFlow = DEFAULT_FLOW
    check_current: Callable[[], None] | None = None
    """Called when a write has its slot; raises to prevent a write that is no longer wanted."""

    def slot_for(self, request: Request, attempt: int) -> WriteSlot:
        is_urgent = attempt > 1 or request.method == "DELETE" or request.path.endswith("/status")
        write_class = WriteClass.URGENT if is_urgent else WriteClass.CREATION
        return self.limiter.write_slot(self.flow, write_class, write_cost(len(request.body)))


async def send_with_retries(
    transport: Transport, request: Request, rng: random.Random, admission: WriteAdmission | None
) -> Reply:
    """Send a request until it succeeds; a write acquires a slot of the limiter for each attempt.

    A throttled request (429) is retried after the delay that the server asks for: it was not executed. A read is also
    retried when there is no response or the server is unavailable. A write is not, because it may have been executed:
    its caller uses a precondition, or a name that makes a repetition a conflict.
    """
    clock = asyncio.get_running_loop().time
    deadline = math.inf
    for attempt in range(1, MAX_ATTEMPTS + 1):
        if admission is None or request.method == "GET":
            deadline = min(deadline, clock() + RETRY_TIMEOUT_SECONDS)
            response = await _send_once(transport, request)
        else:
            async with admission.slot_for(request, attempt) as slot:
                if admission.check_current is not None:
                    admission.check_current()
                # The deadline does not include the wait for the first slot.
                deadline = min(deadline, clock() + RETRY_TIMEOUT_SECONDS)
                response = await _send_once(transport, request)
                slot.record_response(response if isinstance(response, ApiError) else None)
        if isinstance(response, Reply):
            return response
        if attempt == MAX_ATTEMPTS or not _is_retryable(request, response):
            raise response
        backoff = INITIAL_BACKOFF_SECONDS * 2.0 ** (attempt - 1)
        delay = (backoff if response.retry_after is None else response.retry_after) * rng.uniform(1.0, 1.25)
        if clock() + delay > deadline:
            raise response
        await asyncio.sleep(delay)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _send_once(transport: Transport, request: Request) -> Reply | ApiError:
    try:
        reply = await transport.send(request)
    except Unreachable as error:
        return error
    return reply if reply.status < 300 else error_from_response(reply.status, reply.headers, reply.body)


def _is_retryable(request: Request, error: ApiError) -> bool:
    if isinstance(error, TooManyRequests):
        # Without a retry delay, the cause is the object (a PodDisruptionBudget), not the load.
        return error.retry_after is not None
    is_unavailable = isinstance(error, Unreachable) or (
        isinstance(error, ServerError) and error.status in _UNAVAILABLE_STATUSES
    )
    return is_unavailable and request.method == "GET"
