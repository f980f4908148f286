"""Find the ConfigMaps, Secrets and volume claims that a pod names, and wait for those that are missing."""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.kubelet.environment.variables import (
    CLAIM_UID_KEY,
    CONFIG_MAP,
    SECRET,
    VOLUME_CLAIM,
    referenced_objects,
)
from pliant.embedded.retries import with_retries
from pliant.errors import NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS

_RESOURCES = {CONFIG_MAP: CONFIG_MAPS, SECRET: SECRETS, VOLUME_CLAIM: PERSISTENT_VOLUME_CLAIMS}

ConfigData = dict[tuple[str, str], Mapping[str, bytes]]


class ConfigReader:
    """Reads configuration of one namespace when it is needed; nothing of it is kept."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read_referenced(self, pod_spec: Mapping[str, Any]) -> ConfigData:
        """The contents of everything a pod names that exists."""
        found: ConfigData = {}
        for kind, name in sorted(referenced_objects(pod_spec)):
            try:
                get = partial(self._client.get, _RESOURCES[kind], self._namespace, name)
                found[kind, name] = _decode_data(await with_retries(get))
            except NotFound:
                continue
        return found

    async def wait_for_change(
        self, kind: str, name: str, observed: Mapping[tuple[str, str], Mapping[str, bytes]]
    ) -> None:
        """Return once an object holds something else than `seen`."""
        news = asyncio.Event()
        known = observed.get((kind, name))

        def compare(_: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is not None and _decode_data(new) != known:
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


def _decode_data(obj: Mapping[str, Any]) -> Mapping[str, bytes]:
    if obj["kind"] == VOLUME_CLAIM:
        return {CLAIM_UID_KEY: obj["metadata"]["uid"].encode()}
    encoded = obj.get("data") or {} if obj["kind"] == SECRET else obj.get("binaryData") or {}
    plain = {} if obj["kind"] == SECRET else obj.get("data") or {}
    content = {key: value.encode() for key, value in plain.items()}
    return content | {key: base64.b64decode(value) for key, value in encoded.items()}


class ConfigView(msgspec.Struct, frozen=True, gc=False):
    """An object of which only its version matters."""

    metadata: ObjectMeta


class ConfigKey(NamedTuple):
    """Names a ConfigMap or a Secret."""

    kind: str
    namespace: str
    name: str


class ConfigWatch:
    """Who waits for changes of which object."""

    def __init__(self) -> None:
        self._subscribers: dict[ConfigKey, list[asyncio.Event]] = defaultdict(list)

    def change_handler(self, kind: str) -> Callable[[ConfigView | None, ConfigView | None], None]:
        """What to call when an object of a kind has changed."""

        def changed(old: ConfigView | None, new: ConfigView | None) -> None:
            present = new or old
            if present is not None:
                key = ConfigKey(kind, present.metadata.namespace, present.metadata.name)
                for waiting in self._subscribers.get(key, ()):
                    waiting.set()

        return changed

    @contextmanager
    def subscribe(self, keys: Iterable[ConfigKey]) -> Iterator[asyncio.Event]:
        """An event that is set whenever one of the objects has changed."""
        wanted, news = list(keys), asyncio.Event()
        for key in wanted:
            self._subscribers[key].append(news)
        try:
            yield news
        finally:
            for key in wanted:
                self._subscribers[key].remove(news)
                if not self._subscribers[key]:
                    del self._subscribers[key]
