"""Retries of API calls, and status patches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from pliant.errors import Conflict, Forbidden, Invalid, NotFound, ServerError, TooManyRequests, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import Resource
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH

T = TypeVar("T")

_INITIAL_BACKOFF = 0.1
_MAX_BACKOFF = 30.0

NON_RETRYABLE_API_ERRORS = (NotFound, Conflict, Invalid, Forbidden)
"""Errors that a retry does not change: the object is gone or changed, or its namespace is terminating."""

log = logging.getLogger(__name__)


async def retry_until_answered(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat an idempotent API call, with backoff, until the API server accepts or rejects it."""
    backoff = _INITIAL_BACKOFF
    while True:
        try:
            return await call()
        except (ServerError, TooManyRequests, Unreachable) as error:
            log.warning("retrying API call", extra={"error": str(error), "backoff": backoff})
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _MAX_BACKOFF)


async def patch_status(client: KubeClient, resource: Resource, meta: ObjectMeta, status: Mapping[str, Any]) -> None:
    """Merge fields into the status of an object, with retries; raise Conflict if its uid has changed."""
    patch = {"metadata": {"uid": meta.uid}, "status": status}
    call = partial(client.patch, resource, meta.namespace, meta.name, patch, subresource="status")
    await retry_until_answered(partial(call, content_type=STRATEGIC_MERGE_PATCH))
