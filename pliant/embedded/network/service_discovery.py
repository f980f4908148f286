"""The files in which a pod's programs look for names, by the rules of Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pliant.embedded.network.dns_zone import CLUSTER_DOMAIN, search_domains
from pliant.embedded.network.service_index import API_SERVICE_KEY, ServiceIndex
from pliant.embedded.object_views import ServicePortView, ServiceView

_DEFAULT_OPTION = ("ndots", "5")
_DNS_POLICY_NONE = "None"
_DNS_POLICY_DEFAULT = "Default"

RawPod = Mapping[str, Any]


def render_hosts_file(pod: RawPod, hostname: str, pod_ip: str) -> str:
    """What a pod's /etc/hosts says: itself, and the aliases it asks for."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    subdomain = spec.get("subdomain") or ""
    whole = f"{hostname}.{subdomain}.{namespace}.svc.{CLUSTER_DOMAIN} " if subdomain else ""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", f"{pod_ip}\t{whole}{hostname}"]
    aliases = ((each["ip"], each.get("hostnames") or ()) for each in spec.get("hostAliases") or ())
    lines += (f"{target}\t{' '.join(names)}" for target, names in aliases)
    return "".join(f"{line}\n" for line in lines)


def render_resolv_conf(pod: RawPod, nameserver: str) -> str:
    """What a pod's /etc/resolv.conf says: whom to ask, and where to look for short names.

    The resolvers of the machine cannot be reached from a pod: the cluster's own asks them on its behalf.
    """
    spec = pod["spec"]
    wishes = spec.get("dnsConfig") or {}
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    servers = [] if policy == _DNS_POLICY_NONE else [nameserver]
    searches = (
        [] if policy in (_DNS_POLICY_NONE, _DNS_POLICY_DEFAULT) else [*search_domains(pod["metadata"]["namespace"])]
    )
    options = {} if policy in (_DNS_POLICY_NONE, _DNS_POLICY_DEFAULT) else dict([_DEFAULT_OPTION])
    servers += wishes.get("nameservers") or ()
    searches += wishes.get("searches") or ()
    options |= {each["name"]: each.get("value") or "" for each in wishes.get("options") or ()}
    return "".join(f"{line}\n" for line in _resolv_conf_lines(servers, searches, options))


def _resolv_conf_lines(servers: list[str], searches: list[str], options: Mapping[str, str]) -> Iterator[str]:
    yield from (f"nameserver {each}" for each in dict.fromkeys(servers))
    if searches:
        yield f"search {' '.join(dict.fromkeys(searches))}"
    if options:
        yield "options " + " ".join(f"{name}:{value}" if value else name for name, value in options.items())


def service_variables(
    service_index: ServiceIndex, pod: Mapping[str, Any], map_address: Callable[[str], str]
) -> dict[str, str]:
    """`NAME_SERVICE_HOST` and its kin for the services that a pod is told of, at the addresses it finds them at.

    That of the API server is told to every pod, unless its namespace has one of the same name.
    """
    namespace = pod["metadata"]["namespace"]
    told = [each for each in (service_index.service(*API_SERVICE_KEY),) if each is not None]
    if pod["spec"].get("enableServiceLinks") is not False:
        told += service_index.services_with_cluster_ip(namespace)
    variables: dict[str, str] = {}
    for service in told:
        if service.spec.ports:
            variables.update(_variables_of_service(service, map_address(service.spec.cluster_ip)))
    return variables


def _variables_of_service(service: ServiceView, address: str) -> Iterator[tuple[str, str]]:
    name, ports = _variable_name(service.metadata.name), service.spec.ports
    yield f"{name}_SERVICE_HOST", address
    yield f"{name}_SERVICE_PORT", str(ports[0].port)
    for port in ports:
        if port.name:
            yield f"{name}_SERVICE_PORT_{_variable_name(port.name)}", str(port.port)
    yield f"{name}_PORT", _port_url(ports[0], address)
    for port in ports:
        prefix = f"{name}_PORT_{port.port}_{port.protocol}"
        yield prefix, _port_url(port, address)
        yield f"{prefix}_PROTO", port.protocol.lower()
        yield f"{prefix}_PORT", str(port.port)
        yield f"{prefix}_ADDR", address


def _port_url(port: ServicePortView, address: str) -> str:
    return f"{port.protocol.lower()}://{address}:{port.port}"


def _variable_name(name: str) -> str:
    return name.upper().replace("-", "_")
