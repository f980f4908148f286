"""Namespaces with LimitRanges and ResourceQuotas, and requests to them.

`quota_answers.json` contains what kube-apiserver answers; `python -m tests.controlplane.quota_answers` records it. The
default tests compare the embedded server with the record, the real ones both servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pliant.kube.transport.base import JSON_CONTENT_TYPE, MERGE_PATCH


@dataclass(frozen=True, kw_only=True)
class Step:
    """A request to a path of the namespace."""

    method: str = "POST"
    path: str
    body: dict[str, Any]
    query: dict[str, str] = field(default_factory=dict)

    @property
    def media(self) -> str:
        """Return the media type of the body."""
        return MERGE_PATCH if self.method == "PATCH" else JSON_CONTENT_TYPE


@dataclass(frozen=True, kw_only=True)
class Case:
    """Requests to a namespace of their own, which has quotas and a LimitRange with these items."""

    title: str
    limits: tuple[dict[str, Any], ...] = ()
    quotas: tuple[dict[str, Any], ...] = ()
    steps: tuple[Step, ...]


def create(body: dict[str, Any], **query: str) -> Step:
    """Return a step that creates an object."""
    kind = body["kind"].lower()
    return Step(path=f"{kind}s", body=body, query=query)


def patch(path: str, body: dict[str, Any]) -> Step:
    """Return a step that changes an object by a merge patch."""
    return Step(method="PATCH", path=path, body=body)


def quota(hard: dict[str, str], name: str = "quota", **spec: Any) -> dict[str, Any]:
    """Return a ResourceQuota."""
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}


def limit_range(*items: dict[str, Any], name: str = "limits") -> dict[str, Any]:
    """Return a LimitRange."""
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": {"limits": list(items)}}


def container(name: str = "main", *, limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    """Return a container with these requests."""
    named = {each.replace("_", "-"): amount for each, amount in requests.items()}
    resources = {"requests": named, **({"limits": limits} if limits else {})}
    return {"name": name, "image": "x", "command": ["true"], "resources": resources}


def pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a pod that needs no service account."""
    given = {"automountServiceAccountToken": False, "containers": list(containers or (container(),)), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": given}


def claim(name: str, storage: str, storage_class: str = "") -> dict[str, Any]:
    """Return a PersistentVolumeClaim."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    spec["storageClassName"] = storage_class
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def service(name: str, service_type: str, *ports: int) -> dict[str, Any]:
    """Return a service."""
    named = [{"name": f"p{port}", "port": port} for port in ports]
    spec = {"type": service_type, "ports": named}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def secret(name: str) -> dict[str, Any]:
    """Return an empty Secret."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}


def lease(name: str) -> dict[str, Any]:
    """Return a Lease, whose kind is counted with its group."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}


LIMIT_RANGE_CASES = (
    Case(
        title="limits of containers",
        limits=({"type": "Container", "min": {"cpu": "100m"}, "max": {"cpu": "2", "memory": "1Gi"}},),
        steps=(
            create(pod("defaults")),
            create(pod("fits", container(cpu="0.5", memory="512Mi", limits={"cpu": "1000m", "memory": "1Gi"}))),
            create(pod("small", container(cpu="50m", memory="1Mi"))),
            create(pod("large", container(cpu="1", limits={"cpu": "3"}))),
            create(pod("init", initContainers=[container("setup", memory="1024Mi", limits={"memory": "1.5Gi"})])),
        ),
    ),
    Case(
        title="limits of pods",
        limits=({"type": "Pod", "max": {"cpu": "2"}, "min": {"memory": "100M"}},),
        steps=(
            create(pod("none", container(memory="1Gi"))),
            create(pod("two", *(container(name, memory="1G", limits={"cpu": "1500m"}) for name in ("a", "b")))),
            create(pod("little", container(memory="50000k", limits={"cpu": "1"}))),
            create(
                pod(
                    "init",
                    container(memory="100M", limits={"cpu": "1"}),
                    initContainers=[container("i", memory="100M", limits={"cpu": "2"})],
                )
            ),
        ),
    ),
    Case(
        title="ratios of limits to requests",
        limits=({"type": "Container", "maxLimitRequestRatio": {"cpu": "1500m"}},),
        steps=(
            create(pod("none")),
            create(pod("double", container(cpu="1", limits={"cpu": "2"}))),
            create(pod("equal", container(cpu="1", limits={"cpu": "1"}))),
            create(pod("open", container(cpu="1"))),
        ),
    ),
    Case(
        title="limits of claims",
        limits=({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}},),
        steps=(create(claim("small", "1000Mi")), create(claim("large", "3Gi")), create(claim("fits", "1024Mi"))),
    ),
    Case(
        title="invalid LimitRanges",
        steps=(
            create(limit_range({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}})),
            create(limit_range({"type": "Node", "max": {"cpu": "1"}})),
            create(limit_range({"type": "Pod", "default": {"cpu": "1"}})),
            create(limit_range({"type": "PersistentVolumeClaim"})),
            create(limit_range({"type": "Container", "max": {"storage": "1"}})),
            create(limit_range({"type": "Container", "max": {"wood": "1"}})),
            create(limit_range({"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}})),
            create(limit_range({"type": "Pod"}, {"type": "Pod"})),
            create(
                limit_range(
                    {"type": "Container", "default": {"nvidia.com/gpu": "1"}, "defaultRequest": {"nvidia.com/gpu": "2"}}
                )
            ),
        ),
    ),
)
_URGENT = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
QUOTA_CASES = (
    Case(
        title="numbers of pods and what they request",
        quotas=(quota({"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}),),
        steps=(
            create(pod("bare")),
            create(pod("half", container(cpu="500m", limits={"memory": "512Mi"}))),
            create(pod("large", container(cpu="0.6", limits={"memory": "512Mi"}))),
            create(pod("larger", container(cpu="2000m", limits={"memory": "2Gi"}))),
            create(pod("second", container(cpu="500m", limits={"memory": "100M"}))),
            create(pod("third", container(cpu="0", limits={"memory": "0"}))),
            create(pod("second", container(cpu="0", limits={"memory": "0"}))),
        ),
    ),
    Case(
        title="two containers without requests",
        quotas=(quota({"cpu": "1", "memory": "1Gi", "limits.cpu": "1"}),),
        steps=(create(pod("bare", container("b", cpu="1"), container("a", memory="1"))),),
    ),
    Case(
        title="extended resources",
        quotas=(quota({"requests.nvidia.com/gpu": "2", "requests.ephemeral-storage": "1Gi"}),),
        steps=(
            create(pod("gpu", container(limits={"nvidia.com/gpu": "1", "ephemeral-storage": "100Mi"}))),
            create(pod("gpus", container(limits={"nvidia.com/gpu": "2"}))),
            create(pod("none")),
        ),
    ),
    Case(
        title="services and their ports",
        quotas=(quota({"services": "3", "services.nodeports": "3", "services.loadbalancers": "1"}),),
        steps=(
            create(service("plain", "ClusterIP", 80)),
            create(service("ports", "NodePort", 80, 81)),
            create(service("more", "NodePort", 80, 81)),
            create(service("balanced", "LoadBalancer", 80)),
            patch("services/plain", {"spec": {"type": "LoadBalancer"}}),
            create(service("fourth", "ClusterIP", 80)),
        ),
    ),
    Case(
        title="claims and storage classes",
        quotas=(
            quota(
                {
                    "persistentvolumeclaims": "3",
                    "requests.storage": "3Gi",
                    "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
                    "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                }
            ),
        ),
        steps=(
            create(claim("a", "1Gi", "gold")),
            create(claim("b", "1Mi", "gold")),
            create(claim("c", "2Gi", "silver")),
            create(claim("d", "1Mi", "silver")),
        ),
    ),
    Case(
        title="numbers of objects",
        quotas=(
            quota({"secrets": "2", "count/secrets": "2"}, "first"),
            quota({"count/leases.coordination.k8s.io": "1", "resourcequotas": "2"}, "second"),
        ),
        steps=(
            create(secret("a")),
            create(secret("b"), dryRun="All"),
            create(secret("b")),
            create(secret("c"), dryRun="All"),
            create(secret("c")),
            create(lease("l")),
            create(lease("m")),
            create(quota({"pods": "1"}, "third")),
        ),
    ),
    Case(
        title="scopes",
        quotas=(
            quota({"pods": "1"}, "besteffort", scopes=["BestEffort"]),
            quota({"pods": "1", "cpu": "2"}, "notbesteffort", scopes=["NotBestEffort", "NotTerminating"]),
            quota({"pods": "1"}, "terminating", scopes=["Terminating"]),
            quota({"pods": "0"}, "urgent", scopeSelector={"matchExpressions": [_URGENT]}),
        ),
        steps=(
            create(pod("h", container(cpu="1"), priorityClassName="system-node-critical")),
            create(pod("a")),
            create(pod("b")),
            create(pod("c", container(memory="1"))),
            create(pod("d", container(cpu="1"))),
            create(pod("e", container(cpu="1"))),
            create(pod("f", container(cpu="1"), activeDeadlineSeconds=10)),
            create(pod("g", container(cpu="1"), activeDeadlineSeconds=10)),
            patch("pods/d", {"spec": {"activeDeadlineSeconds": 10}}),
        ),
    ),
    Case(
        title="invalid quotas",
        steps=(
            create(quota({"wood": "1"})),
            create(quota({"pods": "1.5"})),
            create(quota({"cpu": "-1"})),
            create(quota({"requests.nvidia.com/gpu": "500m"})),
            create(quota({"a/b/c": "1"})),
            create(quota({"pods": "1"}, scopes=["Sometimes"])),
            create(quota({"cpu": "1"}, scopes=["BestEffort"])),
            create(quota({"pods": "1"}, scopes=["BestEffort", "NotBestEffort"])),
            create(
                quota(
                    {"pods": "1"},
                    scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]},
                )
            ),
            create(quota({"pods": "1"}, "fine")),
            patch("resourcequotas/fine", {"spec": {"scopes": ["BestEffort"]}}),
            patch("resourcequotas/fine", {"spec": {"hard": {"pods": "7000"}}}),
        ),
    ),
)
CASES = (*LIMIT_RANGE_CASES, *QUOTA_CASES)
