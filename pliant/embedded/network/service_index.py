"""Index of services and pods for the pod network: by name, by address and by label."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from pliant.embedded.object_views import PodObjectMeta, PodView, ServicePortView, ServiceSpecView, ServiceView
from pliant.kube.objects import ObjectMeta

API_SERVICE_IP = "10.96.0.1"
API_SERVICE_PORT = 443
API_SERVICE_KEY = ("default", "kubernetes")

_API_SERVICE = ServiceView(
    metadata=ObjectMeta(name="kubernetes", namespace="default"),
    spec=ServiceSpecView(
        cluster_ip=API_SERVICE_IP,
        ports=(ServicePortView(name="https", port=API_SERVICE_PORT, target_port=API_SERVICE_PORT),),
    ),
)


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    address: str
    port: int


class ServiceIndex:
    """The current services and pods; `on_change` is called when routes may have changed.

    The kubelet publishes the address of a pod before its processes start; the status of the pod has it only later.
    """

    def __init__(self, publish_delay: float = 0.0) -> None:
        """Create an empty index; tests delay the publication of addresses by some seconds."""
        self.on_change: Callable[[], None] = lambda: None
        self._publish_delay = publish_delay
        self._address_published = asyncio.Event()
        """Set and replaced when an address is published."""
        self._published_addresses: dict[str, str] = {}
        """Addresses by the uid of the pod."""
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        self._by_label: dict[tuple[str, str, str], dict[str, PodView]] = defaultdict(dict)
        self._pods_by_ip: dict[str, PodView] = {}
        self._services: dict[str, dict[str, ServiceView]] = defaultdict(dict)
        self._services_by_ip: dict[str, ServiceView] = {}
        self._cluster_ip_services: dict[str, dict[str, ServiceView]] = defaultdict(dict)
        self._services[API_SERVICE_KEY[0]][API_SERVICE_KEY[1]] = _API_SERVICE

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None:
            self._remove_pod(old)
            if new is None or new.is_finished or new.metadata.uid != old.metadata.uid:
                self._published_addresses.pop(old.metadata.uid, None)
        if new is not None and not new.is_finished:
            self._add_pod(new)
        if _routing_state(old) != _routing_state(new):
            self.on_change()

    async def publish_address(self, pod: PodObjectMeta, address: str) -> None:
        """Let the names of a pod resolve to its address; return when they do."""
        if self._publish_delay:
            await asyncio.sleep(self._publish_delay)
        known = self._pods[pod.namespace].get(pod.name)
        if known is None or known.metadata.uid != pod.uid:
            return  # It was deleted in the meantime.
        self._published_addresses[pod.uid] = address
        self._remove_pod(known)
        self._add_pod(known)
        published, self._address_published = self._address_published, asyncio.Event()
        published.set()
        self.on_change()

    async def wait_for_publication(self) -> None:
        """Wait until the next address is published."""
        await self._address_published.wait()

    def on_service_change(self, old: ServiceView | None, new: ServiceView | None) -> None:
        """Update a service; the service `kubernetes` is built in and never changes."""
        service = new or old
        if service is None or (service.metadata.namespace, service.metadata.name) == API_SERVICE_KEY:
            return
        if old is not None:
            self._cluster_ip_services[old.metadata.namespace].pop(old.metadata.name, None)
            self._services[old.metadata.namespace].pop(old.metadata.name, None)
            self._services_by_ip.pop(old.spec.cluster_ip, None)
        if new is not None:
            self._services[new.metadata.namespace][new.metadata.name] = new
            self._services_by_ip[new.spec.cluster_ip] = new
            if new.spec.cluster_ip not in ("", "None"):
                self._cluster_ip_services[new.metadata.namespace][new.metadata.name] = new
        if old is None or new is None or old.spec != new.spec:
            self.on_change()

    def service(self, namespace: str, name: str) -> ServiceView | None:
        return self._services[namespace].get(name) if namespace in self._services else None

    def services_with_cluster_ip(self, namespace: str) -> list[ServiceView]:
        """Return the services of a namespace with a cluster IP, except the service `kubernetes`."""
        return list(self._cluster_ip_services[namespace].values()) if namespace in self._cluster_ip_services else []

    def service_by_ip(self, cluster_ip: str) -> ServiceView | None:
        return _API_SERVICE if cluster_ip == API_SERVICE_IP else self._services_by_ip.get(cluster_ip)

    def services(self) -> Iterator[ServiceView]:
        for by_name in self._services.values():
            yield from by_name.values()

    def routable_pods(self, service: ServiceView) -> list[PodView]:
        include_unready = service.spec.publish_not_ready_addresses
        return [pod for pod in self.selected_pods(service) if include_unready or _accepts_connections(pod)]

    def selected_pods(self, service: ServiceView) -> list[PodView]:
        """Return all pods with an address that match the selector, sorted by name."""
        return [pod for pod in self._matching_pods(service) if pod.status.pod_ip]

    def starting_pods(self, service: ServiceView) -> list[PodView]:
        """Return the pods that match the selector and will have an address soon, sorted by name."""
        return [pod for pod in self._matching_pods(service) if _will_have_address(pod)]

    def _matching_pods(self, service: ServiceView) -> list[PodView]:
        """Return the pods that match the selector; the search starts from the rarest label."""
        selector = service.spec.selector.items()
        if not selector:
            return []
        namespace = service.metadata.namespace
        rarest = min((self._by_label.get((namespace, *label), {}) for label in selector), key=len)
        matching = (pod for pod in rarest.values() if selector <= pod.metadata.labels.items())
        return sorted(matching, key=lambda pod: pod.metadata.name)

    def routable_endpoints(self, service: ServiceView, port: ServicePortView) -> list[ServiceEndpoint]:
        targets = ((pod, resolve_target_port(pod, port)) for pod in self.routable_pods(service))
        return [ServiceEndpoint(pod.status.pod_ip, target_port) for pod, target_port in targets if target_port]

    def pod_by_ip(self, pod_ip: str) -> PodView | None:
        return self._pods_by_ip.get(pod_ip)

    def has_objects_in_namespace(self, name: str) -> bool:
        return bool(self._services.get(name) or self._pods.get(name))

    def _add_pod(self, pod: PodView) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        if (address := self._published_addresses.get(pod.metadata.uid)) and address != pod.status.pod_ip:
            pod = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, pod_ip=address))
        self._pods[namespace][name] = pod
        if pod.status.pod_ip:
            self._pods_by_ip[pod.status.pod_ip] = pod
        for key, value in pod.metadata.labels.items():
            self._by_label[namespace, key, value][name] = pod

    def _remove_pod(self, pod: PodView) -> None:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        known = self._pods[namespace].pop(name, None)
        if known is None:
            return
        if self._pods_by_ip.get(known.status.pod_ip) is known:
            del self._pods_by_ip[known.status.pod_ip]
        for key, value in known.metadata.labels.items():
            labeled = self._by_label[namespace, key, value]
            labeled.pop(name, None)
            if not labeled:
                del self._by_label[namespace, key, value]


def resolve_target_port(pod: PodView, service_port: ServicePortView) -> int:
    """Return the pod's port for a service port; 0 if the pod has no port of that name."""
    target = service_port.target_port or service_port.port
    if isinstance(target, int):
        return target
    if target.isdigit():
        return int(target)
    declared = (each for container in pod.spec.containers for each in container.ports)
    return next((each.container_port for each in declared if each.name == target), 0)


def _accepts_connections(pod: PodView) -> bool:
    return pod.is_ready and pod.metadata.deletion_timestamp is None


def _will_have_address(pod: PodView) -> bool:
    is_unschedulable = any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)
    return not (pod.status.pod_ip or pod.metadata.deletion_timestamp or is_unschedulable)


def _routing_state(pod: PodView | None) -> object:
    if pod is None or pod.is_finished or not pod.status.pod_ip:
        return None
    return pod.metadata.uid, pod.status.pod_ip, _accepts_connections(pod), pod.metadata.labels
