"""Whether the API server serves a kind, and whether an installed CRD is up to date."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pliant.errors import ApiError, Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource

MAX_CRD_POLL_SECONDS = 60.0  # the longest interval in seconds between two checks for a kind that is not installed
MIN_CRD_POLL_SECONDS = 1.0  # the first interval in seconds, and the one after an API error

log = logging.getLogger(__name__)


async def wait_until_served(client: KubeClient, resource: Resource, on_absent: Callable[[], None]) -> None:
    """Return once the API server serves the kind; call `on_absent` after each check that does not find it."""
    wait = MIN_CRD_POLL_SECONDS
    while True:
        try:
            if await is_served(client, resource):
                return
        except ApiError as error:
            log.info(
                "cannot check whether kind is installed", extra={"resource": resource.full_name, "error": str(error)}
            )
            await asyncio.sleep(MIN_CRD_POLL_SECONDS)
            continue
        on_absent()
        if wait == MIN_CRD_POLL_SECONDS:
            log.info("kind not installed; checking every minute", extra={"resource": resource.full_name})
        # The API server starts to serve a kind some time after its CRD was created.
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_CRD_POLL_SECONDS)


async def is_served(client: KubeClient, resource: Resource) -> bool:
    """Return whether the API server serves the kind; assume so if discovery is forbidden."""
    try:
        api_resources = json.loads(await client.get_raw(f"/apis/{resource.group}/{resource.version}"))
    except NotFound:
        return False
    except Forbidden:
        return True
    return any(each.get("name") == resource.plural for each in api_resources.get("resources") or ())


def outdated_crd_fields(wanted: Mapping[str, Any], installed: Mapping[str, Any]) -> list[str]:
    """Return the paths at which an installed CRD lacks or changes something of the wanted one.

    Defaults added by the server and fields of other versions of the CRD are ignored.
    """
    return list(_differing_paths("spec", wanted.get("spec") or {}, installed.get("spec") or {}))


def _differing_paths(path: str, wanted: Any, installed: Any) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(installed, dict):
        for key, value in wanted.items():
            if key == "description":
                continue
            if key in installed:
                yield from _differing_paths(f"{path}.{key}", value, installed[key])
            elif value not in (None, False, []):  # the API server drops empty values
                yield f"{path}.{key}"
    elif _has_named_entries(wanted) and _has_named_entries(installed):
        installed_by_name = {entry["name"]: entry for entry in installed}
        for entry in wanted:
            yield from _differing_paths(f"{path}[{entry['name']}]", entry, installed_by_name.get(entry["name"]))
    elif wanted != installed:
        yield path


def _has_named_entries(entries: Any) -> bool:
    return isinstance(entries, list) and all(isinstance(entry, dict) and "name" in entry for entry in entries)
