"""Sequences about services and EndpointSlices that the campaign found; the differences they showed are mended."""

from __future__ import annotations

from typing import Any

from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.differential.steps import TABLE, A, Step

_SERVICES = f"{A}/services"
_ONE = f"{_SERVICES}/one"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{run}-a/endpointslices"
_PORTS = [{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]


def _create(_is_dry: bool = False, **spec: Any) -> Step:
    service = {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}], **spec}}
    return Step("POST", _SERVICES, service, query={"dryRun": "All"} if _is_dry else {})


def _patch(media: str = MERGE_PATCH, **spec: Any) -> Step:
    return Step("PATCH", _ONE, {"spec": spec}, media=media)


def _replace(**spec: Any) -> Step:
    return Step("PUT", _ONE, {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 80}], **spec}})


def _status(**status: Any) -> Step:
    return Step("PATCH", f"{_ONE}/status", {"status": status}, media=MERGE_PATCH)


def _create_slice(kind: str = "IPv4", **fields: Any) -> Step:
    body = {"metadata": {"name": "one"}, "addressType": kind, **fields}
    return Step("POST", _SLICES, body, query={"dryRun": "All"})


def _endpoint(*addresses: str, kind: str = "IPv4", **fields: Any) -> Step:
    return _create_slice(kind, endpoints=[{"addresses": [*addresses], **fields}])


SEQUENCES: dict[str, list[Step]] = {
    "the table shows the addresses of a load balancer sorted and once": [
        _create(type="LoadBalancer"),
        _status(
            loadBalancer={"ingress": [{"hostname": "lb.example.com"}, {"ip": "203.0.113.9"}, {"ip": "203.0.113.9"}]}
        ),
        Step("GET", _SERVICES, accept=TABLE),
    ],
    "fields of services": [
        _create(True, externalIPs=["203.0.113.8"]),
        _create(True, externalIPs=["127.0.0.1", "a/b", "169.254.0.1", "0.0.0.0", "224.0.0.1"]),
        _create(True, type="LoadBalancer", loadBalancerClass="Bad_Name!"),
        _create(True, type="LoadBalancer", loadBalancerSourceRanges=["10.0.0.0/8", "nonsense", "10.0.0.1"]),
        _create(True, loadBalancerSourceRanges=["10.0.0.0/8"]),
        _create(True, type="LoadBalancer", externalTrafficPolicy="Local"),
        _create(True, healthCheckNodePort=30_001),
        _create(True, type="ExternalName", externalName="a.b", internalTrafficPolicy="Local"),
        _create(True, type="Best", loadBalancerSourceRanges=["10.0.0.0/8"], internalTrafficPolicy="a/b"),
        _create(True, trafficDistribution="a/b"),
        _create(True, sessionAffinity="..", sessionAffinityConfig={}),
        _create(True, clusterIP="None", ipFamilyPolicy="RequireDualStack", selector={"a": "b"}),
        _create(True, clusterIP="10.96.0.77", clusterIPs=["10.96.0.78"]),
        _create(True, ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="SingleStack"),
        _create(type="NodePort", ports=[{"port": 80, "nodePort": 80}]),
        Step("POST", _SERVICES, {"spec": {"ports": [{"name": "x" * 64}]}}),
        Step("POST", _SERVICES, {"metadata": {"name": "a/b"}, "spec": {"ports": [{"port": 0}]}}),
    ],
    "node ports of services that change": [
        _create(type="LoadBalancer", ports=_PORTS),
        _patch(STRATEGIC_MERGE_PATCH, ports=[{"port": 53, "protocol": "UDP"}]),
        _patch(ports=[{"port": 54, "name": "a"}, {"port": 55, "name": "c"}]),
        _patch(externalTrafficPolicy="Local"),
        _patch(loadBalancerClass="example.org/other"),
        _patch(healthCheckNodePort=31_000),
        _patch(type="NodePort", loadBalancerClass=None),
        _patch(type="ClusterIP"),
        _patch(clusterIP="None"),
        _patch(type="ExternalName", externalName="a.b"),
        _patch(type="NodePort"),
    ],
    "headless services that get ports": [
        _create(clusterIP="None", ports=None),
        _patch(STRATEGIC_MERGE_PATCH, type="LoadBalancer", ports=[{"port": 53, "protocol": "UDP"}] * 2),
        Step(
            "PATCH",
            _ONE,
            {"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "10.96.0.9"}},
            query={"fieldManager": "bob"},
            media=APPLY_PATCH,
        ),
    ],
    "the status of a service": [
        _create(),
        _status(loadBalancer={"ingress": [{}]}),
        _patch(type="LoadBalancer"),
        _status(loadBalancer={"ingress": [{"ip": "203.0.113.9"}, {"hostname": "1.2.3.4"}]}),
        _status(loadBalancer={"ingress": [{"ip": "203.0.113.9"}, {"ipMode": "VIP"}, {"ip": "x", "ipMode": "x"}]}),
        _status(loadBalancer={"ingress": [{"ip": "203.0.113.9"}, {"hostname": "a.b"}]}),
        _patch(type="NodePort"),
        Step("DELETE", _SERVICES, {"propagationPolicy": "Sideways"}, query={"labelSelector": "x y"}),
    ],
    "endpoints": [
        _endpoint("10.1.1.1", deprecatedTopology={"zone": "z"}),
        _endpoint("2001:db8::1", "nonsense", "127.0.0.1"),
        _endpoint("10.1.1.1", "fe80::1", kind="IPv6"),
        _endpoint("a", "a.b.", "", "Bad_.name", f"{'x' * 64}.b", kind="FQDN"),
        _endpoint("a", kind="Best"),
        _endpoint("10.1.1.1", hints={"forZones": [{}, {"name": "a b"}], "forNodes": [{"name": "n"}, {"name": "n"}]}),
        _endpoint("10.1.1.1", hints={"forZones": [{"name": str(index)} for index in range(9)]}),
        _create_slice(ports=[{"name": "a", "appProtocol": "a b"}, {"name": "a", "protocol": "x"}]),
        Step("POST", _SLICES, {"metadata": {"name": "one"}, "addressType": "IPv6", "ports": [{"name": "all"}]}),
        Step("GET", _SLICES, accept=TABLE),
    ],
    "node ports of a load balancer that needs none": [
        _create(type="NodePort"),
        _replace(type="LoadBalancer", allocateLoadBalancerNodePorts=False),
        _replace(type="LoadBalancer"),
        _replace(type="NodePort"),
    ],
}
