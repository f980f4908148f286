"""Know which services there are, which pods stand behind them, and who is at which address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pliant.embedded.views import PodView, ServicePort, ServiceSpecView, ServiceView
from pliant.kube.objects import ObjectMeta

API_ADDRESS = "10.96.0.1"
"""Where pods reach the API server, as the service `kubernetes`."""
API_PORT = 443
API = ("default", "kubernetes")
"""Namespace and name of that service."""

_API = ServiceView(
    metadata=ObjectMeta(name="kubernetes", namespace="default"),
    spec=ServiceSpecView(
        cluster_ip=API_ADDRESS, ports=(ServicePort(name="https", port=API_PORT, target_port=API_PORT),)
    ),
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one port of a service leads to."""

    address: str
    port: int


class Names:
    """The present state of services and pods, as far as the network is concerned.

    `on_change` is told whenever something of it may be different.
    """

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = _nobody
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        self._by_label: dict[tuple[str, str, str], dict[str, PodView]] = defaultdict(dict)
        self._by_address: dict[str, PodView] = {}
        self._services: dict[str, dict[str, ServiceView]] = defaultdict(dict)
        self._at: dict[str, ServiceView] = {}
        self._addressed: dict[str, dict[str, ServiceView]] = defaultdict(dict)
        """Of the services of each namespace those with an address of their own."""
        self._services[API[0]][API[1]] = _API

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None:
            self._forget(old)
        if new is not None and new.status.pod_ip and not new.is_finished:
            self._note(new)
        if _told(old) != _told(new):
            self.on_change()

    def service_changed(self, old: ServiceView | None, new: ServiceView | None) -> None:
        """Take in what became of a service; that of the API is known by itself, and stays."""
        known = new or old
        if known is None or (known.metadata.namespace, known.metadata.name) == API:
            return
        if old is not None:
            self._addressed[old.metadata.namespace].pop(old.metadata.name, None)
            self._services[old.metadata.namespace].pop(old.metadata.name, None)
            self._at.pop(old.spec.cluster_ip, None)
        if new is not None:
            self._services[new.metadata.namespace][new.metadata.name] = new
            self._at[new.spec.cluster_ip] = new
            if new.spec.cluster_ip not in ("", "None"):
                self._addressed[new.metadata.namespace][new.metadata.name] = new
        if old is None or new is None or old.spec != new.spec:
            self.on_change()

    def service(self, namespace: str, name: str) -> ServiceView | None:
        """The service of that name."""
        return self._services[namespace].get(name) if namespace in self._services else None

    def addressed(self, namespace: str) -> list[ServiceView]:
        """The services of a namespace that have an address of their own, but for that of the API."""
        return list(self._addressed[namespace].values()) if namespace in self._addressed else []

    def service_at(self, address: str) -> ServiceView | None:
        """The service that has an address of the cluster."""
        return _API if address == API_ADDRESS else self._at.get(address)

    def services(self) -> Iterator[ServiceView]:
        """Every service there is."""
        for held in self._services.values():
            yield from held.values()

    def pods_behind(self, service: ServiceView) -> list[PodView]:
        """The pods a service stands for."""
        even_unready = service.spec.publish_not_ready_addresses
        return [pod for pod in self.pods_matching(service) if even_unready or _is_open(pod)]

    def pods_matching(self, service: ServiceView) -> list[PodView]:
        """The pods a service would stand for if all were ready, found from its rarest label."""
        wanted = service.spec.selector.items()
        if not wanted:
            return []
        namespace = service.metadata.namespace
        rarest = min((self._by_label.get((namespace, *label), {}) for label in wanted), key=len)
        matching = (pod for pod in rarest.values() if wanted <= pod.metadata.labels.items())
        return sorted(matching, key=lambda pod: pod.metadata.name)

    def endpoints(self, service: ServiceView, port: ServicePort) -> list[Endpoint]:
        """Where a port of a service leads to now."""
        found = ((pod, port_of(pod, port)) for pod in self.pods_behind(service))
        return [Endpoint(pod.status.pod_ip, number) for pod, number in found if number]

    def pod_at(self, address: str) -> PodView | None:
        """The pod that has an address."""
        return self._by_address.get(address)

    def has_namespace(self, name: str) -> bool:
        """Whether pods or services are in a namespace of that name."""
        return bool(self._services.get(name) or self._pods.get(name))

    def _note(self, pod: PodView) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        self._pods[namespace][name] = pod
        self._by_address[pod.status.pod_ip] = pod
        for key, value in pod.metadata.labels.items():
            self._by_label[namespace, key, value][name] = pod

    def _forget(self, pod: PodView) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        known = self._pods[namespace].pop(name, None)
        if known is None:
            return
        if self._by_address.get(known.status.pod_ip) is known:
            del self._by_address[known.status.pod_ip]
        for key, value in known.metadata.labels.items():
            filed = self._by_label[namespace, key, value]
            filed.pop(name, None)
            if not filed:
                del self._by_label[namespace, key, value]


def port_of(pod: PodView, port: ServicePort) -> int:
    """The port of a pod that a service's port means; 0 when the pod has none of that name."""
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    if target.isdigit():
        return int(target)
    declared = (each for container in pod.spec.containers for each in container.ports)
    return next((each.container_port for each in declared if each.name == target), 0)


def _is_open(pod: PodView) -> bool:
    """Whether a pod takes new connections: it is ready and does not leave."""
    return pod.is_ready and pod.metadata.deletion_timestamp is None


def _told(pod: PodView | None) -> object:
    """What of a pod concerns others on the network."""
    if pod is None or pod.is_finished or not pod.status.pod_ip:
        return None
    return pod.metadata.uid, pod.status.pod_ip, _is_open(pod), pod.metadata.labels


def _nobody() -> None:
    """Tell nobody."""
