"""The DNS records of the cluster: services, pods and reverse lookups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.embedded.network.dns_message import (
    DnsRecord,
    RecordType,
    address_record,
    is_encodable_name,
    name_record,
    srv_record,
)
from pliant.embedded.network.service_index import ServiceIndex, resolve_target_port
from pliant.embedded.object_views import PodView, ServicePortView, ServiceView, pod_hostname

CLUSTER_DOMAIN = "cluster.local"
_HEADLESS = "None"
_REVERSE_SUFFIX = ".in-addr.arpa"
_CLUSTER_IP_PREFIXES = ("10.88.", "10.96.")


def search_domains(namespace: str) -> tuple[str, ...]:
    return (f"{namespace}.svc.{CLUSTER_DOMAIN}", f"svc.{CLUSTER_DOMAIN}", CLUSTER_DOMAIN)


class DnsZone:
    def __init__(self, service_index: ServiceIndex) -> None:
        self._service_index = service_index

    def find_records(self, name: str, record_type: int, namespace: str) -> list[DnsRecord] | None:
        """Return the records of a name, empty if none has the type; None if the name does not exist."""
        records = self._reverse_records(name) if name.endswith(_REVERSE_SUFFIX) else self._resolve_name(name, namespace)
        if records is None:
            return None
        return [
            each
            for each in records
            if record_type in (each.record_type, RecordType.ANY) or each.record_type is RecordType.CNAME
        ]

    def is_cluster_name(self, name: str) -> bool:
        """Return whether upstream resolvers must not be asked: the name has the form of a cluster name.

        A namespace may have the name of a top-level domain, such as `dev`; so longer names must also name a service.
        """
        if name.endswith(_REVERSE_SUFFIX):
            return _parse_reverse_name(name).startswith(_CLUSTER_IP_PREFIXES)
        match name.split("."):
            case [_] | [*_, "local" | "svc"]:
                return True
            case [_, namespace]:
                return self._service_index.has_objects_in_namespace(namespace)
            case [_, service, namespace]:
                return self._service_index.service(namespace, service) is not None
            case _:
                return False

    def resolve_addresses(self, name: str, namespace: str) -> list[str]:
        """Return the IPv4 addresses of a name, as a pod in the namespace resolves it."""
        records = self._resolve_name(name.rstrip(".").lower(), namespace) or ()
        return [".".join(map(str, each.data)) for each in records if each.record_type is RecordType.A]

    def awaits_address(self, name: str, namespace: str) -> bool:
        """Return whether a name that does not resolve belongs to a pod that will have an address soon."""
        is_unknown = self._resolve_name(name, namespace) is None
        return is_unknown and any(self._is_starting(labels) for labels in _cluster_labels(name, namespace))

    def _is_starting(self, labels: list[str]) -> bool:
        match labels:
            case [name, namespace, "svc"]:
                host = ""
            case [host, name, namespace, "svc"]:
                pass
            case _:
                return False
        service = self._service_index.service(namespace, name)
        if service is None or service.spec.cluster_ip != _HEADLESS or not service.spec.publish_not_ready_addresses:
            return False
        starting = self._service_index.starting_pods(service)
        return any(not host or (pod.spec.subdomain == name and pod_hostname(pod).lower() == host) for pod in starting)

    def _resolve_name(self, name: str, namespace: str) -> list[DnsRecord] | None:
        """Resolve a fully qualified name, or a short name with the search domains of the namespace."""
        for labels in _cluster_labels(name, namespace):
            records = self._resolve_cluster_labels(labels)
            if records is not None:
                return records
        return None

    def _resolve_cluster_labels(self, labels: list[str]) -> list[DnsRecord] | None:
        match labels:
            case [*rest, "svc"]:
                return self._resolve_service_labels(rest)
            case [dashed, namespace, "pod"]:
                pod = self._service_index.pod_by_ip(dashed.replace("-", "."))
                is_found = pod is not None and pod.metadata.namespace == namespace
                return [address_record(pod.status.pod_ip)] if pod and is_found else None
            case []:
                return []
            case _:
                return None

    def _resolve_service_labels(self, labels: list[str]) -> list[DnsRecord] | None:
        match labels:
            case []:
                return []
            case [namespace]:
                return [] if self._service_index.has_objects_in_namespace(namespace) else None
            case [service, namespace]:
                return self._service_records(self._service_index.service(namespace, service))
            case [host, service, namespace]:
                return self._pod_records(host, self._service_index.service(namespace, service))
            case [port, protocol, service, namespace] if port[:1] == protocol[:1] == "_":
                return self._named_port_records(port[1:], protocol[1:], self._service_index.service(namespace, service))
            case _:
                return None

    def _service_records(self, service: ServiceView | None) -> list[DnsRecord] | None:
        if service is None:
            return None
        if service.spec.external_name:
            target = service.spec.external_name
            return [name_record(RecordType.CNAME, target)] if is_encodable_name(target) else None
        if service.spec.cluster_ip != _HEADLESS:
            return [address_record(service.spec.cluster_ip)]
        return list(_address_records(self._service_index.routable_pods(service))) or None

    def _pod_records(self, host: str, service: ServiceView | None) -> list[DnsRecord] | None:
        """Return the records of a pod below a headless service, by hostname or by its address with dashes."""
        if service is None or service.spec.cluster_ip != _HEADLESS:
            return None
        pods = [pod for pod in self._service_index.routable_pods(service) if _pod_label(pod, service) == host]
        return list(_address_records(pods)) or None

    def _named_port_records(self, port: str, protocol: str, service: ServiceView | None) -> list[DnsRecord] | None:
        if service is None:
            return None
        ports = [each for each in service.spec.ports if (each.name, each.protocol.lower()) == (port, protocol)]
        return list(self._srv_records(service, ports)) or None

    def _srv_records(self, service: ServiceView, ports: Sequence[ServicePortView]) -> Iterator[DnsRecord]:
        service_name = _service_fqdn(service)
        if service.spec.cluster_ip != _HEADLESS:
            yield from (srv_record(each.port, service_name) for each in ports)
            return
        for pod in self._service_index.routable_pods(service):
            target = f"{_pod_label(pod, service)}.{service_name}"
            yield from (srv_record(resolve_target_port(pod, each), target) for each in ports)

    def _reverse_records(self, name: str) -> list[DnsRecord] | None:
        address = _parse_reverse_name(name)
        pod = self._service_index.pod_by_ip(address)
        if pod is not None:
            service = self._service_index.service(pod.metadata.namespace, pod.spec.subdomain)
            if service is None:
                dashed = address.replace(".", "-")
                return [name_record(RecordType.PTR, f"{dashed}.{pod.metadata.namespace}.pod.{CLUSTER_DOMAIN}")]
            return [name_record(RecordType.PTR, f"{pod_hostname(pod)}.{_service_fqdn(service)}")]
        service = self._service_index.service_by_ip(address)
        return [name_record(RecordType.PTR, _service_fqdn(service))] if service is not None else None


def _cluster_labels(name: str, namespace: str) -> Iterator[list[str]]:
    """Yield the labels, without the domain of the cluster, of the names that a name can stand for."""
    if name.endswith("." + CLUSTER_DOMAIN) or name == CLUSTER_DOMAIN:
        yield name.split(".")[:-2]
        return
    for domain in search_domains(namespace):
        yield f"{name}.{domain}".split(".")[:-2]


def _service_fqdn(service: ServiceView) -> str:
    return f"{service.metadata.name}.{service.metadata.namespace}.svc.{CLUSTER_DOMAIN}"


def _address_records(pods: Sequence[PodView]) -> Iterator[DnsRecord]:
    return (address_record(pod.status.pod_ip) for pod in pods)


def _pod_label(pod: PodView, service: ServiceView) -> str:
    if pod.spec.subdomain == service.metadata.name:
        return pod_hostname(pod).lower()
    return pod.status.pod_ip.replace(".", "-")


def _parse_reverse_name(name: str) -> str:
    return ".".join(reversed(name.removesuffix(_REVERSE_SUFFIX).split(".")))
