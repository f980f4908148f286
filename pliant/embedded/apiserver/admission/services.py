"""Defaults of services, and the fields that follow from their type and from the allocated values."""

from __future__ import annotations

from pliant.embedded.storage.stored_objects import Object

EXTERNAL_TYPES = ("NodePort", "LoadBalancer")
_AFFINITY_SECONDS = 10_800
_OF_CLUSTER_IP = (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",))
"""Groups of fields that a service without a cluster IP loses, if an update changes none of the group."""


def set_service_defaults(service: Object, old: Object | None) -> None:
    spec = service.setdefault("spec", {})
    kind = spec.get("type")
    for port in spec.get("ports") or ():
        # Clients in Go send 0 for an absent one.
        port["targetPort"] = port.get("targetPort") or port.get("port") or 0
    if spec.get("sessionAffinity") == "ClientIP":
        if ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
    elif spec.get("sessionAffinity") == "None":
        spec.pop("sessionAffinityConfig", None)
    if kind == "ExternalName":
        spec.pop("internalTrafficPolicy", None)  # stored by API servers, but not served
    elif kind in ("ClusterIP", *EXTERNAL_TYPES):
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if is_externally_accessible(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
        for ingress in (((service.get("status") or {}).get("loadBalancer")) or {}).get("ingress") or ():
            if ingress.get("ip"):
                ingress.setdefault("ipMode", "VIP")


def is_externally_accessible(spec: Object) -> bool:
    return spec.get("type") in EXTERNAL_TYPES or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def needs_health_check(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def keep_allocated_values(spec: Object, before: Object) -> None:
    """Copy what the API server has allocated, unless the update says otherwise."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if _needs_node_ports(spec) and _needs_node_ports(before):
        _keep_node_ports(spec, before)
    if needs_health_check(spec) and needs_health_check(before) and before.get("healthCheckNodePort"):
        spec.setdefault("healthCheckNodePort", before["healthCheckNodePort"])


def _needs_node_ports(spec: Object) -> bool:
    is_balanced = spec.get("type") == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts", True)
    return spec.get("type") == "NodePort" or bool(is_balanced)


def _keep_node_ports(spec: Object, before: Object) -> None:
    """Copy node ports to ports of the same name, unless the update uses them for other ports."""
    used = list_node_ports(before) & list_node_ports(spec)
    by_name = {port.get("name"): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        number = by_name.get(port.get("name"))
        if number and number not in used and not port.get("nodePort"):
            port["nodePort"] = number


def drop_values_of_old_type(service: Object, old: Object) -> None:
    """Drop fields that the new type does not have, if the update does not change them."""
    spec, before = service["spec"], old.get("spec") or {}
    if spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        for group in _OF_CLUSTER_IP:
            _drop_unchanged(spec, before, *group)
    is_external = spec.get("type") in EXTERNAL_TYPES
    if before.get("type") in EXTERNAL_TYPES and not is_external and list_node_ports(spec) <= list_node_ports(before):
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    if needs_health_check(before) and not needs_health_check(spec):
        _drop_unchanged(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        _drop_unchanged(spec, before, "allocateLoadBalancerNodePorts")
        _drop_unchanged(spec, before, "loadBalancerClass")
        service["status"] = {**service.get("status", {}), "loadBalancer": {}}
    if is_externally_accessible(before) and not is_externally_accessible(spec):
        _drop_unchanged(spec, before, "externalTrafficPolicy")


def _drop_unchanged(spec: Object, before: Object, *fields: str) -> None:
    if all(spec.get(field) == before.get(field) for field in fields):
        for field in fields:
            spec.pop(field, None)


def list_node_ports(spec: Object) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
