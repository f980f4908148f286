"""Whether a cluster knows a kind: not everybody installs all of them, and some do so later."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable

from pliant.errors import ApiError, Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource

LOOK_AGAIN = 60.0
"""Seconds until a kind that was not there is looked for again; at first it is less."""
TRY_AGAIN = 1.0
"""Seconds until a server that did not answer is asked again."""

log = logging.getLogger(__name__)


async def wait_served(client: KubeClient, resource: Resource, on_absent: Callable[[], None]) -> None:
    """Return once the cluster knows the kind; `on_absent` is called each time that it does not."""
    wait = TRY_AGAIN
    while True:
        try:
            if await is_served(client, resource):
                return
        except ApiError as problem:
            log.info("kind not seen at once", extra={"resource": resource.full_name, "because": str(problem)})
            await asyncio.sleep(TRY_AGAIN)
            continue
        on_absent()
        if wait == TRY_AGAIN:
            log.info("kind not installed, looked for every minute", extra={"resource": resource.full_name})
        # A server answers for a definition a moment after it was given it.
        await asyncio.sleep(wait)
        wait = min(2 * wait, LOOK_AGAIN)


async def is_served(client: KubeClient, resource: Resource) -> bool:
    """Whether the cluster knows the kind, as far as one may ask."""
    try:
        found = json.loads(await client.raw(f"/apis/{resource.group}/{resource.version}"))
    except NotFound:
        return False
    except Forbidden:
        return True
    return any(each.get("name") == resource.plural for each in found.get("resources") or ())
