"""Find the ConfigMaps, Secrets and volume claims that a pod names, and wait for those that are missing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

from pliant.embedded.node.environment import CLAIM, CONFIG_MAP, SECRET, UID, references
from pliant.embedded.patience import patiently
from pliant.errors import NotFound
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.resources import CLAIMS, CONFIG_MAPS, SECRETS

_RESOURCES = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS, CLAIM: CLAIMS}

Found = dict[tuple[str, str], Mapping[str, bytes]]


class Configuration:
    """Reads configuration of one namespace when it is needed; nothing of it is kept."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def found(self, spec: Mapping[str, Any]) -> Found:
        """The contents of everything a pod names that exists."""
        found: Found = {}
        for kind, name in sorted(references(spec)):
            try:
                get = partial(self._client.get, _RESOURCES[kind], self._namespace, name)
                found[kind, name] = _content(await patiently(get))
            except NotFound:
                continue
        return found

    async def changed(self, kind: str, name: str, seen: Mapping[tuple[str, str], Mapping[str, bytes]]) -> None:
        """Return once an object holds something else than `seen`."""
        news = asyncio.Event()
        known = seen.get((kind, name))

        def compare(_: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is not None and _content(new) != known:
                news.set()

        informer: Informer[dict[str, Any]] = Informer(
            self._client,
            _RESOURCES[kind],
            dict,
            namespace=self._namespace,
            fields=f"metadata.name={name}",
            on_change=compare,
        )
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(informer.run())
            await news.wait()
            following.cancel()


def _content(obj: Mapping[str, Any]) -> Mapping[str, bytes]:
    if obj["kind"] == CLAIM:
        return {UID: obj["metadata"]["uid"].encode()}
    encoded = obj.get("data") or {} if obj["kind"] == SECRET else obj.get("binaryData") or {}
    plain = {} if obj["kind"] == SECRET else obj.get("data") or {}
    content = {key: value.encode() for key, value in plain.items()}
    return content | {key: base64.b64decode(value) for key, value in encoded.items()}
