"""Defaults of services, and the allocation of their addresses and node ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICE_CIDR, ClusterIpAllocator
from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.storage.stored_objects import Object

_EXTERNAL_TYPES = ("NodePort", "LoadBalancer")
_NODE_PORTS = range(30_000, 32_768)
_AFFINITY_SECONDS = 10_800
_OF_CLUSTER_IP = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")


def set_service_defaults(service: Object, old: Object | None) -> None:
    spec = service.setdefault("spec", {})
    before = (old or {}).get("spec") or {}
    for port in spec.get("ports") or ():
        # Clients in Go send 0 for an absent one.
        port["targetPort"] = port.get("targetPort") or port.get("port") or 0
    if old is not None:
        _keep_allocated_values(spec, before)
        _drop_values_of_old_type(spec, before)
    kind = spec.get("type")
    if spec.get("sessionAffinity") == "ClientIP":
        config = spec.get("sessionAffinityConfig") or {}
        client = config.get("clientIP") or {}
        spec["sessionAffinityConfig"] = {**config, "clientIP": {"timeoutSeconds": _AFFINITY_SECONDS, **client}}
    elif spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    if kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind in _EXTERNAL_TYPES:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if kind != "ExternalName" and spec.get("clusterIP"):
        _set_ip_families(spec, before)


def _set_ip_families(spec: Object, before: Object) -> None:
    spec["clusterIPs"] = [spec["clusterIP"]]
    # The pods of a headless service without a selector may be anywhere.
    is_dual = spec["clusterIP"] == "None" and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy") or before.get("ipFamilyPolicy")
    spec["ipFamilyPolicy"] = policy or ("RequireDualStack" if is_dual else "SingleStack")
    families = spec.get("ipFamilies") or ["IPv4"]
    if is_dual and len(families) < 2 and spec["ipFamilyPolicy"] != "SingleStack":
        families = [*families, "IPv6" if families == ["IPv4"] else "IPv4"]
    spec["ipFamilies"] = families


def _keep_allocated_values(spec: Object, before: Object) -> None:
    """Copy what the API server has allocated, unless the update says otherwise."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return
    if not spec.get("clusterIP") and before.get("clusterIP"):
        spec["clusterIP"] = before["clusterIP"]
    if spec.get("type") in _EXTERNAL_TYPES and before.get("type") in _EXTERNAL_TYPES:
        allocated = {_port_key(port): port.get("nodePort") for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort") and allocated.get(_port_key(port)):
                port["nodePort"] = allocated.pop(_port_key(port))


def _drop_values_of_old_type(spec: Object, before: Object) -> None:
    """Drop fields that the new type does not have, if the update does not change them."""
    if spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        for field in _OF_CLUSTER_IP:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if before.get("type") in _EXTERNAL_TYPES and spec.get("type") not in _EXTERNAL_TYPES:
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
        allocated = [port.get("nodePort") for port in before.get("ports") or ()]
        if [port.get("nodePort") for port in spec.get("ports") or ()] == allocated:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)


def _port_key(port: Object) -> tuple[object, object]:
    return port.get("protocol"), port.get("port")


def validate_cluster_ip(cluster_ips: ClusterIpAllocator, spec: Object, before: Object) -> Iterator[FieldError]:
    """Yield an error if a service asks for an address that it cannot have."""
    address = spec.get("clusterIP") or ""
    if address in ("", "None", before.get("clusterIP")) or spec.get("type") == "ExternalName":
        return
    try:
        is_in_range = ipaddress.ip_address(address) in SERVICE_CIDR
    except ValueError:
        return  # the validation of the service reports it
    if not is_in_range:
        cause = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_CIDR}"
    elif cluster_ips.is_allocated(address):
        cause = "provided IP is already allocated"
    else:
        return
    yield invalid_field("spec.clusterIPs", [address], f"failed to allocate IP {address}: {cause}")


def allocate_addresses(
    cluster_ips: ClusterIpAllocator, service: Object, services: Iterable[Object], *, is_dry_run: bool
) -> None:
    """Allocate the cluster IP and the node ports that a service lacks; a dry run keeps none."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = cluster_ips.allocate()
        if is_dry_run:
            cluster_ips.release(spec["clusterIP"])
        _set_ip_families(spec, {})
    wants_ports = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts")
    if spec["type"] in _EXTERNAL_TYPES and wants_ports:
        _allocate_node_ports(spec.get("ports") or [], services)


def _allocate_node_ports(ports: list[Object], services: Iterable[Object]) -> None:
    lacking = [port for port in ports if not port.get("nodePort")]
    if not lacking:
        return
    others = [port for each in services for port in (each.get("spec") or {}).get("ports") or ()]
    used = {port.get("nodePort") for port in (*others, *ports)}
    free = (number for number in _NODE_PORTS if number not in used)
    by_number: dict[object, int] = {}
    for port in lacking:  # the same port of two protocols has one node port
        number = by_number.get(port.get("port")) or next(free, None)
        if number is not None:
            by_number[port.get("port")] = port["nodePort"] = number
