"""The addresses of services: families, cluster IPs and node ports."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from pliant.embedded.apiserver.admission.cluster_ip_allocator import SERVICE_CIDR, ClusterIpAllocator
from pliant.embedded.apiserver.admission.services import (
    EXTERNAL_TYPES,
    drop_values_of_old_type,
    keep_allocated_values,
    list_node_ports,
    needs_health_check,
)
from pliant.embedded.apiserver.admission.validation.service_addresses import validate_address_fields
from pliant.embedded.apiserver.http.errors import invalid_field
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import PATH_SEGMENT_RULE, name_problem
from pliant.embedded.storage.stored_objects import Object
from pliant.errors import ServerError

_NODE_PORTS = range(30_000, 32_768)
_FIRST_ALLOCATED_NODE_PORT = 30_086
"""Lower ones are left to clients that choose a port."""


def prepare_addresses(
    cluster_ips: ClusterIpAllocator, service: Object, old: Object | None, *, is_dry_run: bool
) -> list[FieldError]:
    """Set the families of a service, and keep addresses and ports that its update leaves out; return the errors."""
    spec, before = service["spec"], (old or {}).get("spec") or {}
    if old is not None:
        keep_allocated_values(spec, before)
        _require_different_node_ports(spec)
    errors = list(_prepare_families(cluster_ips, spec, before))
    is_allocated = spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None"
    if old is None and is_allocated and not errors and not is_dry_run:
        errors = list(_validate_owner(service["metadata"]["name"]))
    if old is not None and not errors:
        drop_values_of_old_type(service, old)
    return errors


def _validate_owner(name: str) -> Iterator[FieldError]:
    """Yield an error if a service has no name that the object of its address could refer to."""
    if problem := name_problem(name, PATH_SEGMENT_RULE) or ("" if name else "is required"):
        yield invalid_field("spec.clusterIPs", [], f"failed to allocate IP: spec.parentRef.name: {problem}")


def _prepare_families(cluster_ips: ClusterIpAllocator, spec: Object, before: Object) -> Iterator[FieldError]:
    _align_cluster_ips(spec, before)
    if spec.get("type") == "ExternalName" or (before and _prefers_same_stack(spec, before)):
        return
    if spec.get("ipFamilyPolicy") is None:
        is_dual = spec.get("clusterIP") == "None" and not spec.get("selector")
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or ("RequireDualStack" if is_dual else "SingleStack")
    errors = list(validate_address_fields(spec)) or list(_set_families(spec, before))
    if not errors and before.get("type") in (None, "ExternalName"):
        errors = list(_validate_free(cluster_ips, spec))
    yield from errors


def _require_different_node_ports(spec: Object) -> None:
    """Raise the error of API servers for an update that gives one node port to two ports."""
    known: set[tuple[object, int]] = set()
    for port in spec.get("ports") or () if spec.get("type") in EXTERNAL_TYPES else ():
        key = (port.get("protocol"), port.get("nodePort") or 0)
        if key[1] and key in known:
            raise ServerError(500, "", f"duplicate nodePort: {{{key[0]} {key[1]}}}")
        known.add(key)


def _align_cluster_ips(spec: Object, before: Object) -> None:
    """Set the list of addresses if a client changed only the single one."""
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if address and (not addresses or (address != before.get("clusterIP") and addresses == before.get("clusterIPs"))):
        spec["clusterIPs"] = [address]
    elif not address and before.get("clusterIP") and addresses == before.get("clusterIPs"):
        spec.pop("clusterIPs", None)


def _prefers_same_stack(spec: Object, before: Object) -> bool:
    """Return whether an update leaves the families as they are, although it may prefer others."""
    fields = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    return spec.get("ipFamilyPolicy") == "PreferDualStack" and all(
        spec.get(each) == before.get(each) for each in fields
    )


def _set_families(spec: Object, before: Object) -> Iterator[FieldError]:
    """Set the families, of which this cluster has one; yield the errors of others."""
    policy, path = spec["ipFamilyPolicy"], "spec.ipFamilyPolicy"
    families = list(spec.get("ipFamilies") or ())
    if policy == "SingleStack":
        if families == before.get("ipFamilies"):
            families = families[:1]
        if len(families) > 1 or len(spec.get("clusterIPs") or ()) > 1:
            detail = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
            yield invalid_field(path, policy, detail)
            return
    elif 0 < len(families) < len(before.get("ipFamilies") or ()):
        yield invalid_field(path, policy, "must be 'SingleStack' to release the secondary IP family")
        return
    for index, address in enumerate(spec.get("clusterIPs") or ()):
        if address != "None" and index >= len(families) and ":" in address:
            yield invalid_field(f"spec.clusterIPs[{index}]", address, "IPv6 is not configured on this cluster")
            return
    if spec.get("clusterIP") == "None" and not spec.get("selector"):  # its endpoints may be anywhere
        families = families or ["IPv4"]
        if len(families) < 2 and policy != "SingleStack":
            families.append("IPv6" if families == ["IPv4"] else "IPv4")
        spec["ipFamilies"] = families
        return
    if policy == "RequireDualStack":
        yield invalid_field(path, policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(families):
        if family == "IPv6":
            yield invalid_field(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    spec["ipFamilies"] = families or ["IPv4"]


def _validate_free(cluster_ips: ClusterIpAllocator, spec: Object) -> Iterator[FieldError]:
    """Yield an error if a service asks for an address that it cannot have."""
    address = spec.get("clusterIP") or ""
    if address in ("", "None"):
        return
    if ipaddress.ip_address(address) not in SERVICE_CIDR:
        cause = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {SERVICE_CIDR}"
    elif cluster_ips.is_allocated(address):
        cause = "provided IP is already allocated"
    else:
        return
    yield invalid_field("spec.clusterIPs", [address], f"failed to allocate IP {address}: {cause}")


def allocate_addresses(
    cluster_ips: ClusterIpAllocator,
    service: Object,
    old: Object | None,
    services: Iterable[Object],
    *,
    is_dry_run: bool,
) -> list[FieldError]:
    """Allocate the cluster IP and the node ports that a service lacks; a dry run keeps none."""
    spec, before = service["spec"], (old or {}).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return []
    if not spec.get("clusterIP"):
        spec["clusterIP"] = cluster_ips.allocate()
        spec["clusterIPs"] = [spec["clusterIP"]]
        if is_dry_run:
            cluster_ips.release(spec["clusterIP"])
    ports = spec.get("ports") or [] if spec.get("type") in EXTERNAL_TYPES else []
    wants_all = spec["type"] == "NodePort" or spec.get("allocateLoadBalancerNodePorts")
    lacks_health_check = needs_health_check(spec) and not spec.get("healthCheckNodePort")
    chosen = list_node_ports({"ports": ports}) - list_node_ports(before)
    lacking = [port for port in ports if not port.get("nodePort")] if wants_all else []
    if not lacking and not chosen and not lacks_health_check:
        return []
    used = set().union(*(_list_used(each) for each in services if each["metadata"] != (old or {}).get("metadata")))
    if errors := list(_validate_chosen(ports, chosen, used, is_dry_run=is_dry_run)):
        return errors
    used |= _list_used(service) | list_node_ports(before)  # released with the update
    free = (number for number in range(_FIRST_ALLOCATED_NODE_PORT, _NODE_PORTS.stop) if number not in used)
    _assign_node_ports(ports, lacking, free, is_new=old is None)
    if lacks_health_check and (number := next(free, None)) is not None:
        spec["healthCheckNodePort"] = number
    return []


def _list_used(service: Object) -> set[int]:
    spec = service.get("spec") or {}
    return list_node_ports(spec) | {number for number in [spec.get("healthCheckNodePort")] if number}


def _assign_node_ports(ports: list[Object], lacking: list[Object], free: Iterator[int], *, is_new: bool) -> None:
    """Give each port a node port; in a new service, the same port of two protocols has one node port."""
    by_number = {port.get("port"): port["nodePort"] for port in ports if port.get("nodePort")} if is_new else {}
    for port in lacking:
        number = by_number.get(port.get("port")) or next(free, None)
        if number is None:
            return
        port["nodePort"] = number
        if is_new:
            by_number[port.get("port")] = number


def _validate_chosen(
    ports: list[Object], chosen: set[int], used: set[int], *, is_dry_run: bool
) -> Iterator[FieldError]:
    for index, port in enumerate(ports):
        number = port.get("nodePort")
        if number not in chosen:
            continue
        if number in used:
            yield invalid_field(f"spec.ports[{index}].nodePort", number, "provided port is already allocated")
        elif number not in _NODE_PORTS and not is_dry_run:
            last = _NODE_PORTS.stop - 1
            detail = f"provided port is not in the valid range. The range of valid ports is {_NODE_PORTS.start}-{last}"
            yield invalid_field(f"spec.ports[{index}].nodePort", number, detail)
        else:
            continue
        return
