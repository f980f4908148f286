"""Validation of services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Final

from pliant.embedded.apiserver.admission.services import EXTERNAL_TYPES, is_externally_accessible, needs_health_check
from pliant.embedded.apiserver.admission.validation import names
from pliant.embedded.apiserver.admission.validation.service_addresses import parse_ip_version
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
_TRAFFIC_POLICIES: Final = ("Cluster", "Local")
_TRAFFIC_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES: Final = ("Proxy", "VIP")
_TOPOLOGY_MODE: Final = "service.kubernetes.io/topology-mode"
_TOPOLOGY_HINTS: Final = "service.kubernetes.io/topology-aware-hints"
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_UNSET_BY_EXTERNAL_NAME: Final = ("ipFamilies", "ipFamilyPolicy")


def validate_service(service: Object, old: Object | None) -> list[FieldError]:
    """Return the errors of a service; its addresses are validated separately."""
    spec, before = service.get("spec") or {}, (old or {}).get("spec") or {}
    annotations = service["metadata"].get("annotations") or {}
    errors = list(names.validate_labels("spec.selector", spec.get("selector") or {}))
    errors += _validate_annotations(annotations, spec)
    errors += _validate_type(spec)
    errors += _validate_ports(spec, is_new=old is None)
    errors += _validate_affinity(spec)
    errors += _validate_traffic(spec)
    errors += _validate_external_addresses(spec)
    errors += _validate_load_balancer(spec)
    errors += _validate_load_balancer_status(service)
    if old is not None:
        errors += _validate_update(spec, before)
    return errors


def _validate_annotations(annotations: Object, spec: Object) -> Iterator[FieldError]:
    if {_TOPOLOGY_MODE, _TOPOLOGY_HINTS} <= annotations.keys():
        mode = annotations[_TOPOLOGY_MODE]
        if mode != annotations[_TOPOLOGY_HINTS]:
            detail = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
            yield invalid_field(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, detail)
    if _SOURCE_RANGES in annotations and not spec.get("loadBalancerSourceRanges"):
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if spec.get("type") != "LoadBalancer":
            yield forbidden_field(path, "may only be used when `type` is 'LoadBalancer'")
        ranges = annotations[_SOURCE_RANGES].strip()
        for value in ranges.split(",") if ranges else ():
            yield from _validate_range(path, value.strip())


def _validate_type(spec: Object) -> Iterator[FieldError]:
    address, kind = spec.get("clusterIP") or "", spec.get("type")
    if kind == "ExternalName":
        if address or spec.get("clusterIPs"):
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
    if address == "None" and kind in EXTERNAL_TYPES:
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
        if port.get("appProtocol") is not None:
            yield from names.validate_qualified_name(f"{path}.appProtocol", port["appProtocol"])
        if (protocol, number) in known_ports:
            yield duplicate_value(path, port)
            if is_new and not node_port and _gets_node_ports(spec):  # both get the same one
                yield duplicate_value(f"{path}.nodePort", node_port)
        known_ports.add((protocol, number))
        if node_port and spec.get("type") == "ClusterIP":
            yield forbidden_field(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'")
        if node_port and (protocol, node_port) in node_ports:
            yield duplicate_value(f"{path}.nodePort", node_port)
        node_ports.add((protocol, node_port))


def _gets_node_ports(spec: Object) -> bool:
    allocates = spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort" or (spec.get("type") == "LoadBalancer" and allocates)


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
    elif config is not None and spec.get("sessionAffinity") == "None":
        yield forbidden_field(path, "must not be set when session affinity is None")


def _validate_traffic(spec: Object) -> Iterator[FieldError]:
    policy, distribution = spec.get("externalTrafficPolicy"), spec.get("trafficDistribution")
    path = "spec.externalTrafficPolicy"
    if not is_externally_accessible(spec):
        if policy:
            yield invalid_field(path, policy, "may only be set for externally-accessible services")
    elif policy not in _TRAFFIC_POLICIES:
        yield unsupported_value(path, policy, _TRAFFIC_POLICIES)
    if distribution is not None and distribution not in _TRAFFIC_DISTRIBUTIONS:
        yield unsupported_value("spec.trafficDistribution", distribution, _TRAFFIC_DISTRIBUTIONS)


def _validate_external_addresses(spec: Object) -> Iterator[FieldError]:
    for index, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{index}]"
        if parse_ip_version(address):
            yield from names.validate_endpoint_address(path, address)
        else:
            yield from names.validate_ip_address(path, address)


def _validate_load_balancer(spec: Object) -> Iterator[FieldError]:
    """Yield the errors of the fields that only load balancers have."""
    is_balancer = spec.get("type") == "LoadBalancer"
    detail = "may only be used when `type` is 'LoadBalancer'"
    path = "spec.LoadBalancerSourceRanges"  # as API servers write it
    for index, value in enumerate(ranges := spec.get("loadBalancerSourceRanges") or ()):
        yield from _validate_range(f"{path}[{index}]", value.strip())
    if ranges and not is_balancer:
        yield forbidden_field(path, detail)
    if not is_balancer and spec.get("allocateLoadBalancerNodePorts") is not None:
        yield forbidden_field("spec.allocateLoadBalancerNodePorts", detail)
    class_name = spec.get("loadBalancerClass")
    if is_balancer and class_name is not None:
        yield from names.validate_qualified_name("spec.loadBalancerClass", class_name)
    elif class_name is not None:
        yield forbidden_field("spec.loadBalancerClass", detail)
    port, path = spec.get("healthCheckNodePort"), "spec.healthCheckNodePort"
    if port and not needs_health_check(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        yield invalid_field(path, port, detail)
    elif port:
        yield from names.validate_port_number(path, port)


def _validate_range(path: str, value: str) -> Iterator[FieldError]:
    try:
        # Bits beyond the prefix are allowed, an address without a prefix is not.
        ipaddress.ip_network(value if "/" in value else "", strict=False)
    except ValueError:
        yield invalid_field(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")


def _validate_load_balancer_status(service: Object) -> Iterator[FieldError]:
    path = "status.loadBalancer.ingress"
    ingresses = (((service.get("status") or {}).get("loadBalancer")) or {}).get("ingress") or ()
    if ingresses and (service.get("spec") or {}).get("type") != "LoadBalancer":
        yield forbidden_field(path, "may only be used when `spec.type` is 'LoadBalancer'")
        return
    for index, ingress in enumerate(ingresses):
        yield from _validate_ingress(ingress, f"{path}[{index}]")


def _validate_ingress(ingress: Object, path: str) -> Iterator[FieldError]:
    address, mode, name = ingress.get("ip"), ingress.get("ipMode"), ingress.get("hostname")
    if address:
        yield from names.validate_ip_address(f"{path}.ip", address)
        if mode is None:
            yield required_field(f"{path}.ipMode", "must be specified when `ip` is set")
        elif mode not in _IP_MODES:
            yield unsupported_value(f"{path}.ipMode", mode, _IP_MODES)
    elif mode is not None:
        yield forbidden_field(f"{path}.ipMode", "may not be specified when `ip` is not set")
    if name:
        yield from names.validate_name(f"{path}.hostname", name)
        if parse_ip_version(name):
            yield invalid_field(f"{path}.hostname", name, "must be a DNS name, not an IP address")


def _validate_update(spec: Object, before: Object) -> Iterator[FieldError]:
    kinds = {spec.get("type"), before.get("type")}
    address, old_address = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    if "ExternalName" not in kinds and old_address and address != old_address:
        yield invalid_field("spec.clusterIPs[0]", address, "may not change once set")
    if kinds == {"LoadBalancer"} and spec.get("loadBalancerClass") != before.get("loadBalancerClass"):
        yield invalid_field("spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set")
    if needs_health_check(spec) and needs_health_check(before):
        port = spec.get("healthCheckNodePort")
        if port and port != before.get("healthCheckNodePort"):
            yield forbidden_field("spec.healthCheckNodePort", "field is immutable")
