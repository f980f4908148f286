"""Random valid services, EndpointSlices and Endpoints, and the statuses of services."""

from __future__ import annotations

import random
from typing import Any

Fields = dict[str, Any]
_SERVICE_PORTS: tuple[list[Fields], ...] = (
    [{"port": 80}],
    [{"port": 80, "targetPort": 8080}],
    [{"port": 80, "name": "http", "targetPort": "web"}, {"port": 53, "name": "dns", "protocol": "UDP"}],
    [{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}],
    [{"port": 443, "name": "tls", "appProtocol": "https"}],
    [{"port": 443, "name": "tls", "appProtocol": "example.org/own"}, {"port": 132, "name": "s", "protocol": "SCTP"}],
)


def make_service(rng: random.Random) -> Fields:
    kind = rng.choice(("", "", "ClusterIP", "None", "None", "NodePort", "LoadBalancer", "ExternalName"))
    options: Fields = {
        "sessionAffinity": rng.choice(("ClientIP", "None")),
        "publishNotReadyAddresses": rng.choice((True, False)),
        "externalIPs": rng.choice((["203.0.113.7"], ["203.0.113.7", "203.0.113.8"])),
        "trafficDistribution": rng.choice(("PreferClose", "PreferSameZone", "PreferSameNode")),
    }
    spec = _choose(rng, options)
    if spec.get("sessionAffinity") == "ClientIP" and rng.random() < 0.5:
        spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": rng.choice((1, 100, 86_400))}}
    if rng.random() < 0.5:
        spec["selector"] = rng.choice(({"app": "web"}, {"app": "db", "tier": "1"}))
    if kind == "ExternalName":
        return {"spec": {"type": kind, "externalName": rng.choice(("example.com", "a.b.example.com.")), **spec}}
    if kind != "None" or rng.random() < 0.7:
        spec["ports"] = [dict(port) for port in rng.choice(_SERVICE_PORTS)]
    if kind == "None" and "selector" in spec and rng.random() < 0.3:
        # Other policies may be defaults, whose manager the embedded server cannot know. With this one, kube-apiserver
        # panics if a service loses its address and has no selector.
        spec["ipFamilyPolicy"] = "PreferDualStack"
    if kind == "None":
        return {"spec": {"clusterIP": "None", **spec}}
    return {"spec": {**spec, **_external_fields(rng, kind)}}


def _external_fields(rng: random.Random, kind: str) -> Fields:
    """Return the type, and some of the fields that it adds."""
    if kind not in ("NodePort", "LoadBalancer"):
        return {"type": kind} if kind else {}
    options: Fields = {
        "externalTrafficPolicy": rng.choice(("Cluster", "Local")),
        # While a service is an ExternalName, kube-apiserver keeps what a client has set, lets managers own it, and
        # hides it from most readers. Therefore only other types have it here, and only with the default value.
        "internalTrafficPolicy": "Cluster",
    }
    if kind == "LoadBalancer":
        options |= {
            "allocateLoadBalancerNodePorts": rng.choice((True, False)),
            "loadBalancerClass": "example.org/balancer",
            "loadBalancerIP": "203.0.113.9",
            "loadBalancerSourceRanges": rng.choice((["10.0.0.0/8"], ["10.0.0.0/8", "192.0.2.0/24"])),
        }
    return {"type": kind, **_choose(rng, options)}


def make_service_status(rng: random.Random) -> Fields:
    ingress: list[Fields] = [
        {"ip": "203.0.113.9"},
        {"ip": "203.0.113.9", "ipMode": "Proxy"},
        {"hostname": "lb.example.com"},
        {"ip": "203.0.113.9", "ports": [{"port": 80, "protocol": "TCP"}]},
    ]
    condition = {
        "type": "Ready",
        "status": rng.choice(("True", "False", "Unknown")),
        "reason": "Known",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    return rng.choice(
        (
            {"loadBalancer": {"ingress": rng.sample(ingress, rng.randrange(3))}},
            {"loadBalancer": {}},
            {"conditions": [condition]},
        )
    )


def make_endpoint_slice(rng: random.Random) -> Fields:
    kind = rng.choice(("IPv4", "IPv4", "IPv6", "FQDN"))
    addresses = {"IPv4": ["10.1.1.1", "10.1.1.2"], "IPv6": ["2001:db8::1", "fd00::2"], "FQDN": ["a.example.com", "b.c"]}
    endpoints = [_make_endpoint(rng, addresses[kind][: rng.randrange(1, 3)]) for _ in range(rng.choice((0, 1, 1, 2)))]
    ports: list[list[Fields]] = [
        [],
        [{"name": "http", "port": 80}],
        [{"port": 53, "protocol": "UDP"}],
        [{"name": "", "port": 80, "appProtocol": "https"}, {"name": "other", "port": 81, "protocol": "SCTP"}],
        [{"name": "all"}],
    ]
    fields: Fields = {"addressType": kind, "endpoints": endpoints}
    return {**fields, "ports": rng.choice(ports)} if rng.random() < 0.9 else fields


def _make_endpoint(rng: random.Random, addresses: list[str]) -> Fields:
    options: Fields = {
        "conditions": rng.choice(({"ready": True}, {"ready": False, "serving": True, "terminating": True}, {})),
        "hostname": "h",
        "nodeName": "n1",
        "zone": "z",
        "hints": rng.choice(({"forZones": [{"name": "z"}]}, {"forNodes": [{"name": "n1"}]}, {})),
        "targetRef": {"kind": "Pod", "name": "p", "namespace": "default", "uid": "some-uid"},
        "deprecatedTopology": {"zone": "z"},
    }
    return {"addresses": addresses, **_choose(rng, options)}


def _choose(rng: random.Random, options: Fields) -> Fields:
    most = min(len(options), 3)
    return {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 1, 1, most)))}
