"""Read the ConfigMaps, Secrets and volume claims that a pod references, and watch them for changes."""

from __future__ import annotations

import asyncio
import base64
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from pliant.embedded.kubelet.environment import variables
from pliant.embedded.kubelet.environment.variables import CONFIG_MAP_KIND, SECRET_KIND, VOLUME_CLAIM_KIND, ConfigData
from pliant.embedded.retries import retry_until_answered
from pliant.errors import Forbidden, NotFound
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS

_RESOURCES = {CONFIG_MAP_KIND: CONFIG_MAPS, SECRET_KIND: SECRETS, VOLUME_CLAIM_KIND: PERSISTENT_VOLUME_CLAIMS}


class ConfigReader:
    """Reads ConfigMaps, Secrets and volume claims of one namespace, without a cache."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read_referenced(self, pod_spec: Mapping[str, Any]) -> ConfigData:
        """Return the contents of all objects that a pod references and that exist."""
        found: dict[tuple[str, str], Mapping[str, bytes]] = {}
        for kind, name in sorted(variables.referenced_config_objects(pod_spec)):
            try:
                get = partial(self._client.get, _RESOURCES[kind], self._namespace, name)
                found[kind, name] = _decode_data(await retry_until_answered(get))
            except (NotFound, Forbidden):
                continue  # Forbidden: the pod is gone, and the node may not read its objects any more.
        return found

    async def wait_for_change(self, kind: str, name: str, observed: ConfigData) -> None:
        """Wait until the data of an object differs from the observed data."""
        changed = asyncio.Event()
        observed_data = observed.get((kind, name))

        def compare(_: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is not None and _decode_data(new) != observed_data:
                changed.set()

        resource, fields = _RESOURCES[kind], f"metadata.name={name}"
        informer: Informer[dict[str, Any]] = Informer(
            self._client, resource, dict, namespace=self._namespace, fields=fields, on_change=compare
        )
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(informer.run())
            await changed.wait()
            watch.cancel()


def _decode_data(obj: Mapping[str, Any]) -> Mapping[str, bytes]:
    if obj["kind"] == VOLUME_CLAIM_KIND:
        return {variables.CLAIM_UID_KEY: obj["metadata"]["uid"].encode()}
    is_secret = obj["kind"] == SECRET_KIND
    encoded = obj.get("data" if is_secret else "binaryData") or {}
    plain = {} if is_secret else obj.get("data") or {}
    content = {key: value.encode() for key, value in plain.items()}
    return content | {key: base64.b64decode(value) for key, value in encoded.items()}


class ConfigMetadataView(msgspec.Struct, frozen=True, gc=False):
    """The metadata of a ConfigMap or Secret."""

    metadata: ObjectMeta


class ConfigKey(NamedTuple):
    """Identifies a ConfigMap or Secret."""

    kind: str
    namespace: str
    name: str


class ConfigWatch:
    """Notifies subscribers of changes of ConfigMaps and Secrets."""

    def __init__(self) -> None:
        self._subscribers: dict[ConfigKey, list[asyncio.Event]] = defaultdict(list)

    def change_handler(self, kind: str) -> Callable[[ConfigMetadataView | None, ConfigMetadataView | None], None]:
        """Return the `on_change` callback for an informer of a kind."""

        def on_change(old: ConfigMetadataView | None, new: ConfigMetadataView | None) -> None:
            present = new or old
            if present is not None:
                key = ConfigKey(kind, present.metadata.namespace, present.metadata.name)
                for subscriber in self._subscribers.get(key, ()):
                    subscriber.set()

        return on_change

    @contextmanager
    def subscribe(self, keys: Iterable[ConfigKey]) -> Iterator[asyncio.Event]:
        """Return an event that is set whenever one of the objects changes."""
        subscribed, changed = list(keys), asyncio.Event()
        for key in subscribed:
            self._subscribers[key].append(changed)
        try:
            yield changed
        finally:
            for key in subscribed:
                self._subscribers[key].remove(changed)
                if not self._subscribers[key]:
                    del self._subscribers[key]
