"""Validation of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.http.errors import (
    duplicate_value,
    forbidden_field,
    invalid_field,
    required_field,
    unsupported_value,
)
from pliant.embedded.schema import FieldError
from pliant.embedded.schema.metadata import DNS_LABEL_RULE
from pliant.embedded.storage.stored_objects import Object

_MAX_AFFINITY_SECONDS: Final = 86_400
_EXTERNAL_TYPES: Final = ("NodePort", "LoadBalancer")
_IP_FAMILIES: Final = ("IPv4", "IPv6")
_IP_FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_UNSET_BY_EXTERNAL_NAME: Final = ("ipFamilies", "ipFamilyPolicy")


def validate_service(service: Object, old: Object | None) -> list[FieldError]:
    """Return the errors of a service; its addresses are validated separately."""
    spec = service.get("spec") or {}
    errors = list(names.validate_labels("spec.selector", spec.get("selector") or {}))
    errors += _validate_type(spec)
    errors += _validate_ports(spec, is_new=old is None)
    errors += _validate_affinity(spec)
    errors += _validate_traffic(spec)
    if old is not None:
        errors += _validate_address_update(spec, old.get("spec") or {})
    return errors


def _validate_type(spec: Object) -> Iterator[FieldError]:
    address, kind = spec.get("clusterIP") or "", spec.get("type")
    if kind == "ExternalName":
        if address:
            yield forbidden_field("spec.clusterIPs", "may not be set for ExternalName services")
        for field in _UNSET_BY_EXTERNAL_NAME:
            if spec.get(field):
                yield forbidden_field(f"spec.{field}", "may not be set for ExternalName services")
        name = (spec.get("externalName") or "").removesuffix(".")
        if name:
            yield from names.validate_name("spec.externalName", name)
        else:
            yield required_field("spec.externalName")
        return
    if not spec.get("ports") and address != "None":
        yield required_field("spec.ports")
    if address == "None" and kind in _EXTERNAL_TYPES:
        yield invalid_field("spec.clusterIPs[0]", address, f"may not be set to 'None' for {kind} services")


def _validate_ports(spec: Object, *, is_new: bool) -> Iterator[FieldError]:
    ports: Sequence[Object] = spec.get("ports") or ()
    known_names: set[str] = set()
    known_ports: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        path, protocol = f"spec.ports[{index}]", port.get("protocol") or ""
        name, number, node_port = port.get("name") or "", port.get("port") or 0, port.get("nodePort") or 0
        if not name and len(ports) > 1:
            yield required_field(f"{path}.name")
        elif name:
            yield from names.validate_name(f"{path}.name", name, DNS_LABEL_RULE)
            if name in known_names:
                yield duplicate_value(f"{path}.name", name)
        known_names.add(name)
        yield from names.validate_port_number(f"{path}.port", number)
        yield from names.validate_port_or_name(f"{path}.targetPort", port.get("targetPort", 0))
        if port.get("appProtocol"):
            yield from names.validate_qualified_name(f"{path}.appProtocol", port["appProtocol"])
        if (protocol, number) in known_ports:
            yield duplicate_value(path, port)
            if is_new and not node_port and spec.get("type") in _EXTERNAL_TYPES:  # both would get the same one
                yield duplicate_value(f"{path}.nodePort", node_port)
        known_ports.add((protocol, number))
        if node_port and spec.get("type") not in _EXTERNAL_TYPES:
            yield forbidden_field(f"{path}.nodePort", f"may not be used when `type` is '{spec.get('type')}'")
        if node_port and (protocol, node_port) in node_ports:
            yield duplicate_value(f"{path}.nodePort", node_port)
        node_ports.add((protocol, node_port))


def _validate_affinity(spec: Object) -> Iterator[FieldError]:
    config = spec.get("sessionAffinityConfig")
    path = "spec.sessionAffinityConfig"
    if spec.get("sessionAffinity") == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        if seconds is None:
            yield required_field(path, "when session affinity type is ClientIP")
        elif not 0 < seconds <= _MAX_AFFINITY_SECONDS:
            detail = f"must be greater than 0 and less than {_MAX_AFFINITY_SECONDS}"
            yield invalid_field(f"{path}.clientIP.timeoutSeconds", seconds, detail)
    elif config is not None:
        yield forbidden_field(path, "must not be set when session affinity is None")


def _validate_traffic(spec: Object) -> Iterator[FieldError]:
    kind, policy = spec.get("type"), spec.get("externalTrafficPolicy")
    if kind not in _EXTERNAL_TYPES and not spec.get("externalIPs") and policy:
        yield invalid_field("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services")
    if kind in _EXTERNAL_TYPES and policy not in (None, "Cluster", "Local"):
        yield unsupported_value("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    if kind != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        detail = "may only be used when `type` is 'LoadBalancer'"
        yield forbidden_field("spec.allocateLoadBalancerNodePorts", detail)
    if kind != "LoadBalancer" and spec.get("loadBalancerClass") is not None:
        yield forbidden_field("spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from names.validate_ip_address(f"spec.externalIPs[{index}]", address)


def validate_families(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of the families of a service, and of an address of a wrong form."""
    if spec.get("type") == "ExternalName":
        return
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        if family not in _IP_FAMILIES:
            yield unsupported_value(f"spec.ipFamilies[{index}]", family, _IP_FAMILIES)
        if family in families[:index]:
            yield duplicate_value(f"spec.ipFamilies[{index}]", family)
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _IP_FAMILY_POLICIES:
        yield unsupported_value("spec.ipFamilyPolicy", policy, _IP_FAMILY_POLICIES)
    address = spec.get("clusterIP") or ""
    if address not in ("", "None") and not _is_address(address):
        yield invalid_field("spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7)")


def validate_stack(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of families that the cluster does not have; headless services without a selector have all."""
    address, policy = spec.get("clusterIP") or "", spec.get("ipFamilyPolicy")
    if spec.get("type") == "ExternalName" or (address == "None" and not spec.get("selector")):
        return
    if policy == "RequireDualStack":
        yield invalid_field("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family == "IPv6":
            yield invalid_field(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _validate_address_update(spec: Object, old: Object) -> Iterator[FieldError]:
    if "ExternalName" in (spec.get("type"), old.get("type")):
        return
    address, before = spec.get("clusterIP") or "", old.get("clusterIP") or ""
    if before and address != before:
        yield invalid_field("spec.clusterIPs[0]", address, "may not change once set")
