"""Tell pods that what they have mounted has changed: one watch for all of them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from pliant.kube.objects import ObjectMeta


class ConfigView(msgspec.Struct, frozen=True, gc=False):
    """An object of which only its version matters."""

    metadata: ObjectMeta


class ConfigKey(NamedTuple):
    """Names a ConfigMap or a Secret."""

    kind: str
    namespace: str
    name: str


class ConfigNews:
    """Who waits for changes of which object."""

    def __init__(self) -> None:
        self._waiting: dict[ConfigKey, list[asyncio.Event]] = defaultdict(list)

    def listener(self, kind: str) -> Callable[[ConfigView | None, ConfigView | None], None]:
        """What to call when an object of a kind has changed."""

        def changed(old: ConfigView | None, new: ConfigView | None) -> None:
            present = new or old
            if present is not None:
                key = ConfigKey(kind, present.metadata.namespace, present.metadata.name)
                for waiting in self._waiting.get(key, ()):
                    waiting.set()

        return changed

    @contextmanager
    def of(self, keys: Iterable[ConfigKey]) -> Iterator[asyncio.Event]:
        """An event that is set whenever one of the objects has changed."""
        wanted, news = list(keys), asyncio.Event()
        for key in wanted:
            self._waiting[key].append(news)
        try:
            yield news
        finally:
            for key in wanted:
                self._waiting[key].remove(news)
                if not self._waiting[key]:
                    del self._waiting[key]
