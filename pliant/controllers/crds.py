"""Whether a cluster knows a kind: not everybody installs all of them, and some do so later."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pliant.errors import ApiError, Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource

MAX_POLL_INTERVAL = 60.0
"""Seconds until a kind that was not there is looked for again; at first it is less."""
MIN_POLL_INTERVAL = 1.0
"""Seconds until a server that did not answer is asked again."""

log = logging.getLogger(__name__)


async def wait_until_served(client: KubeClient, resource: Resource, on_absent: Callable[[], None]) -> None:
    """Return once the cluster knows the kind; `on_absent` is called each time that it does not."""
    wait = MIN_POLL_INTERVAL
    while True:
        try:
            if await is_served(client, resource):
                return
        except ApiError as problem:
            log.info("kind not seen at once", extra={"resource": resource.full_name, "because": str(problem)})
            await asyncio.sleep(MIN_POLL_INTERVAL)
            continue
        on_absent()
        if wait == MIN_POLL_INTERVAL:
            log.info("kind not installed, looked for every minute", extra={"resource": resource.full_name})
        # A server answers for a definition a moment after it was given it.
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_POLL_INTERVAL)


async def is_served(client: KubeClient, resource: Resource) -> bool:
    """Whether the cluster knows the kind, as far as one may ask."""
    try:
        found = json.loads(await client.get_raw(f"/apis/{resource.group}/{resource.version}"))
    except NotFound:
        return False
    except Forbidden:
        return True
    return any(each.get("name") == resource.plural for each in found.get("resources") or ())


def outdated_crd_fields(wanted: Mapping[str, Any], installed: Mapping[str, Any]) -> list[str]:
    """Where an installed definition says less than, or something else than, the one wanted.

    What a server adds by itself, and fields that a newer or older version has beside ours, do no harm.
    """
    return list(_differing_paths("spec", wanted.get("spec") or {}, installed.get("spec") or {}))


def _differing_paths(path: str, wanted: Any, installed: Any) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(installed, dict):
        for key, value in wanted.items():
            if key == "description":
                continue
            if key in installed:
                yield from _differing_paths(f"{path}.{key}", value, installed[key])
            elif value not in (None, False, []):  # a server keeps nothing that says nothing
                yield f"{path}.{key}"
    elif (
        isinstance(wanted, list)
        and isinstance(installed, list)
        and _has_named_entries(wanted)
        and _has_named_entries(installed)
    ):
        there = {entry["name"]: entry for entry in installed}
        for entry in wanted:
            yield from _differing_paths(f"{path}[{entry['name']}]", entry, there.get(entry["name"]))
    elif wanted != installed:
        yield path


def _has_named_entries(entries: list[Any]) -> bool:
    return all(isinstance(entry, dict) and "name" in entry for entry in entries)
