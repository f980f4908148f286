"""/etc/hosts, /etc/resolv.conf and service environment variables of a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pliant.embedded.network.dns_zone import CLUSTER_DOMAIN, search_domains
from pliant.embedded.network.service_index import API_SERVICE_KEY, ServiceIndex
from pliant.embedded.object_views import ServicePortView, ServiceView

RawPod = Mapping[str, Any]


def render_hosts_file(pod: RawPod, hostname: str, pod_ip: str) -> str:
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    subdomain = spec.get("subdomain") or ""
    fqdn = f"{hostname}.{subdomain}.{namespace}.svc.{CLUSTER_DOMAIN} " if subdomain else ""
    lines = ["127.0.0.1\tlocalhost", "::1\tlocalhost ip6-localhost ip6-loopback", f"{pod_ip}\t{fqdn}{hostname}"]
    aliases = ((each["ip"], each.get("hostnames") or ()) for each in spec.get("hostAliases") or ())
    lines += (f"{ip}\t{' '.join(names)}" for ip, names in aliases)
    return "".join(f"{line}\n" for line in lines)


def render_resolv_conf(pod: RawPod, nameserver: str) -> str:
    """Return the content of /etc/resolv.conf for the dnsPolicy and dnsConfig of a pod.

    With dnsPolicy Default the cluster DNS is used, too: pods cannot reach the DNS servers of the host.
    """
    spec = pod["spec"]
    dns_config = spec.get("dnsConfig") or {}
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    uses_cluster_domains = policy not in ("None", "Default")
    servers = [] if policy == "None" else [nameserver]
    searches = [*search_domains(pod["metadata"]["namespace"])] if uses_cluster_domains else []
    options = {"ndots": "5"} if uses_cluster_domains else {}
    servers += dns_config.get("nameservers") or ()
    searches += dns_config.get("searches") or ()
    options |= {each["name"]: each.get("value") or "" for each in dns_config.get("options") or ()}
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
    """Return `NAME_SERVICE_HOST` and the other variables of the services in a pod's namespace.

    The variables of the API server are for every pod, unless its namespace has a service `kubernetes`.
    """
    namespace = pod["metadata"]["namespace"]
    services = [each for each in (service_index.service(*API_SERVICE_KEY),) if each is not None]
    if pod["spec"].get("enableServiceLinks") is not False:
        services += service_index.services_with_cluster_ip(namespace)
    variables: dict[str, str] = {}
    for service in services:
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
