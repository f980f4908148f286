"""Repeat a call until the API server answers it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pliant.errors import Conflict, Forbidden, Invalid, NotFound, ServerError, TooManyRequests, Unreachable

T = TypeVar("T")

_INITIAL_BACKOFF = 0.1
_MAX_BACKOFF = 30.0

REJECTION_ERRORS = (NotFound, Conflict, Invalid, Forbidden)
"""Refusals that say: things are no longer as they were; also that a namespace takes nothing new, as it goes."""

log = logging.getLogger(__name__)


async def with_retries(call: Callable[[], Awaitable[T]]) -> T:
    """The answer to a call that does no harm when it is made twice; refusals are answers too."""
    pause = _INITIAL_BACKOFF
    while True:
        try:
            return await call()
        except (ServerError, TooManyRequests, Unreachable) as problem:
            log.warning("call repeated", extra={"because": str(problem), "pause": pause})
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_BACKOFF)
