"""What the names of a cluster stand for: services, the pods behind them, and addresses read backwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pliant.embedded.names import Names, port_of
from pliant.embedded.network.message import Kind, Record, address_record, is_name, name_record, service_record
from pliant.embedded.views import PodView, ServicePort, ServiceView, host_name

DOMAIN = "cluster.local"
SEARCH = ("svc." + DOMAIN, DOMAIN)
"""Where a short name is looked for, after the namespace of the one who asks."""
_HEADLESS = "None"
_BACKWARDS = ".in-addr.arpa"
_OURS = ("10.88.", "10.96.")


def search_list(namespace: str) -> tuple[str, ...]:
    """The domains in which pods of a namespace look for short names."""
    return (f"{namespace}.svc.{DOMAIN}", *SEARCH)


class Zone:
    """Answers for all names of the cluster, from the present state of pods and services."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def records(self, name: str, kind: int, namespace: str) -> list[Record] | None:
        """What is known of a name, perhaps nothing of the kind asked for; None when there is no such name."""
        found = self._backwards(name) if name.endswith(_BACKWARDS) else self._found(name, namespace)
        if found is None:
            return None
        return [each for each in found if kind in (each.kind, Kind.ANY) or each.kind is Kind.CNAME]

    def is_ours(self, name: str) -> bool:
        """Whether a name is not for resolvers outside: it has the form of ours, in a namespace that is there.

        A namespace may be called as a domain is (`dev`), so longer names must name a service too.
        """
        if name.endswith(_BACKWARDS):
            return _read_backwards(name).startswith(_OURS)
        match name.split("."):
            case [_] | [*_, "local" | "svc"]:
                return True
            case [_, namespace]:
                return self._names.has_namespace(namespace)
            case [_, service, namespace]:
                return self._names.service(namespace, service) is not None
            case _:
                return False

    def addresses(self, name: str, namespace: str) -> list[str]:
        """The addresses of a name, in the words of one who asks from a namespace."""
        found = self._found(name.rstrip(".").lower(), namespace) or ()
        return [".".join(map(str, each.data)) for each in found if each.kind is Kind.A]

    def _found(self, name: str, namespace: str) -> list[Record] | None:
        """Look for a whole name, or for a short one as a resolver would that knows the namespace."""
        if name.endswith("." + DOMAIN) or name == DOMAIN:
            return self._inside(name.split(".")[:-2])
        for domain in search_list(namespace):
            found = self._inside(f"{name}.{domain}".split(".")[:-2])
            if found is not None:
                return found
        return None

    def _inside(self, labels: list[str]) -> list[Record] | None:
        match labels:
            case [*rest, "svc"]:
                return self._among_services(rest)
            case [dashed, namespace, "pod"]:
                pod = self._names.pod_at(dashed.replace("-", "."))
                is_there = pod is not None and pod.metadata.namespace == namespace
                return [address_record(pod.status.pod_ip)] if pod and is_there else None
            case []:
                return []
            case _:
                return None

    def _among_services(self, labels: list[str]) -> list[Record] | None:
        match labels:
            case []:
                return []
            case [namespace]:
                return [] if self._names.has_namespace(namespace) else None
            case [service, namespace]:
                return self._service(self._names.service(namespace, service))
            case [host, service, namespace]:
                return self._host(host, self._names.service(namespace, service))
            case [port, protocol, service, namespace] if port[:1] == protocol[:1] == "_":
                return self._ports(port[1:], protocol[1:], self._names.service(namespace, service))
            case _:
                return None

    def _service(self, service: ServiceView | None) -> list[Record] | None:
        if service is None:
            return None
        if service.spec.external_name:
            target = service.spec.external_name
            return [name_record(Kind.CNAME, target)] if is_name(target) else None
        if service.spec.cluster_ip != _HEADLESS:
            return [address_record(service.spec.cluster_ip)]
        return list(_addresses_of(self._names.pods_behind(service))) or None

    def _host(self, host: str, service: ServiceView | None) -> list[Record] | None:
        """A pod by its own name below a service, or by its address written with dashes."""
        if service is None or service.spec.cluster_ip != _HEADLESS:
            return None
        found = [pod for pod in self._names.pods_behind(service) if _label(pod, service) == host]
        return list(_addresses_of(found)) or None

    def _ports(self, port: str, protocol: str, service: ServiceView | None) -> list[Record] | None:
        if service is None:
            return None
        chosen = [each for each in service.spec.ports if (each.name, each.protocol.lower()) == (port, protocol)]
        return list(self._locations(service, chosen)) or None

    def _locations(self, service: ServiceView, ports: Sequence[ServicePort]) -> Iterator[Record]:
        whole = _whole(service)
        if service.spec.cluster_ip != _HEADLESS:
            yield from (service_record(each.port, whole) for each in ports)
            return
        for pod in self._names.pods_behind(service):
            target = f"{_label(pod, service)}.{whole}"
            yield from (service_record(port_of(pod, each), target) for each in ports)

    def _backwards(self, name: str) -> list[Record] | None:
        address = _read_backwards(name)
        pod = self._names.pod_at(address)
        if pod is not None:
            service = self._names.service(pod.metadata.namespace, pod.spec.subdomain)
            if service is None:
                dashed = address.replace(".", "-")
                return [name_record(Kind.PTR, f"{dashed}.{pod.metadata.namespace}.pod.{DOMAIN}")]
            return [name_record(Kind.PTR, f"{host_name(pod)}.{_whole(service)}")]
        service = self._names.service_at(address)
        return [name_record(Kind.PTR, _whole(service))] if service is not None else None


def _whole(service: ServiceView) -> str:
    return f"{service.metadata.name}.{service.metadata.namespace}.svc.{DOMAIN}"


def _addresses_of(pods: Sequence[PodView]) -> Iterator[Record]:
    return (address_record(pod.status.pod_ip) for pod in pods)


def _label(pod: PodView, service: ServiceView) -> str:
    """What a pod is called below a service."""
    if pod.spec.subdomain == service.metadata.name:
        return host_name(pod).lower()
    return pod.status.pod_ip.replace(".", "-")


def _read_backwards(name: str) -> str:
    return ".".join(reversed(name.removesuffix(_BACKWARDS).split(".")))
