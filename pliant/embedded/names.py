"""Keep the hosts file of every namespace current: services by their ready pods, pods by their host names."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from pliant.embedded.views import PodView, ServiceView, host_name

_DOMAIN = "svc.cluster.local"
_PAUSE = 0.01
"""Seconds in which changes are gathered into one write."""


class Names:
    """Knows who is where, and writes it down for pods to read.

    One file serves all pods of a namespace. It is rewritten in place, because a bind mount shows the file it was
    made of and not the one that later takes its name.
    """

    def __init__(self, folder: Path, gateway: str) -> None:
        self._folder = folder
        self._gateway = gateway
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        self._services: dict[str, dict[str, ServiceView]] = defaultdict(dict)
        self._assigned: dict[str, dict[str, str]] = defaultdict(dict)
        self._written: dict[str, str] = {}
        self._timer: asyncio.TimerHandle | None = None

    def file_of(self, namespace: str) -> Path:
        """The hosts file that pods of a namespace read; it exists from now on."""
        path = self._folder / namespace
        if namespace not in self._written:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._written[namespace] = ""
            path.write_text("")
            self._write(namespace)
        return path

    def assign(self, namespace: str, host: str, address: str) -> None:
        """Let a host name be known before anything runs under it, for programs that look themselves up."""
        self._assigned[namespace][host] = address
        self.file_of(namespace)
        self._write(namespace)

    def withdraw(self, namespace: str, host: str, address: str) -> None:
        """Forget a host name, unless somebody else has it now."""
        if self._assigned[namespace].get(host) == address:
            del self._assigned[namespace][host]
            self._write_soon()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None:
            self._pods[old.metadata.namespace].pop(old.metadata.name, None)
        if new is not None and new.status.pod_ip and not new.is_finished:
            self._pods[new.metadata.namespace][new.metadata.name] = new
        if _told(old) != _told(new):
            self._write_soon()

    def service_changed(self, old: ServiceView | None, new: ServiceView | None) -> None:
        """Take in what became of a service."""
        if old is not None:
            self._services[old.metadata.namespace].pop(old.metadata.name, None)
        if new is not None and new.spec.selector:
            self._services[new.metadata.namespace][new.metadata.name] = new
        if old is None or new is None or old.spec != new.spec:
            self._write_soon()

    def close(self) -> None:
        """Write nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _write_soon(self) -> None:
        if self._timer is None and self._written:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._write_all)

    def _write_all(self) -> None:
        self._timer = None
        for namespace in self._written:
            self._write(namespace)

    def _write(self, namespace: str) -> None:
        text = "".join(f"{address}\t{names}\n" for address, names in self._entries(namespace))
        if text == self._written[namespace]:
            return
        self._written[namespace] = text
        handle = os.open(self._folder / namespace, os.O_WRONLY)
        try:
            # Written before it is cut: a reader in between finds every name that stays.
            os.pwrite(handle, text.encode(), 0)
            os.ftruncate(handle, len(text.encode()))
        finally:
            os.close(handle)

    def _entries(self, namespace: str) -> Iterator[tuple[str, str]]:
        yield "127.0.0.1", "localhost"
        yield "::1", "localhost ip6-localhost ip6-loopback"
        short = "kubernetes " if namespace == "default" else ""
        yield self._gateway, f"{short}kubernetes.default kubernetes.default.svc kubernetes.default.{_DOMAIN}"
        for host, address in sorted(self._assigned[namespace].items()):
            yield address, host
        for place in sorted(self._services):
            yield from self._services_of(place, is_own=place == namespace)

    def _services_of(self, namespace: str, *, is_own: bool) -> Iterator[tuple[str, str]]:
        by_label = _by_label(self._pods[namespace].values())
        for name, service in sorted(self._services[namespace].items()):
            full = f"{name}.{namespace} {name}.{namespace}.svc {name}.{namespace}.{_DOMAIN}"
            for pod in _behind(service, by_label):
                hosts = f"{name} {full}" if is_own else full
                if pod.spec.subdomain == name:
                    stem = f"{host_name(pod)}.{name}"
                    own = f"{stem} " if is_own else ""
                    hosts += f" {own}{stem}.{namespace} {stem}.{namespace}.svc {stem}.{namespace}.{_DOMAIN}"
                yield pod.status.pod_ip, hosts


def _told(pod: PodView | None) -> object:
    """What of a pod shows in hosts files."""
    if pod is None or pod.is_finished or not pod.status.pod_ip:
        return None
    return pod.metadata.uid, pod.status.pod_ip, pod.is_ready, pod.metadata.labels


def _by_label(pods: Iterable[PodView]) -> dict[tuple[str, str], list[PodView]]:
    filed: dict[tuple[str, str], list[PodView]] = defaultdict(list)
    for pod in pods:
        for label in pod.metadata.labels.items():
            filed[label].append(pod)
    return filed


def _behind(service: ServiceView, by_label: dict[tuple[str, str], list[PodView]]) -> list[PodView]:
    """The pods a service stands for, found from its rarest label."""
    wanted = service.spec.selector.items()
    rarest = min((by_label.get(label, []) for label in wanted), key=len)
    even_unready = service.spec.publish_not_ready_addresses
    matching = (pod for pod in rarest if wanted <= pod.metadata.labels.items() and (even_unready or pod.is_ready))
    return sorted(matching, key=lambda pod: pod.metadata.name)
