"""Random valid objects of every kind in the campaign."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.differential.objects.custom import gadget_crd, make_gadget_spec, make_gadget_status
from tests.differential.objects.pods import make_pod_spec
from tests.differential.objects.workloads import (
    make_deployment,
    make_job,
    make_limit_range,
    make_replica_set,
    make_resource_quota,
)
from tests.differential.steps import OTHER_SPACE, RUN, SPACE

Fields = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class KindExample:
    """A kind of the campaign: where it is served and how to make its objects."""

    api_version: str
    kind: str
    plural: str
    make_fields: Callable[[random.Random], Fields]
    """Return all fields but apiVersion, kind and metadata."""
    make_status: Callable[[random.Random], Fields] | None = None
    namespaced: bool = True
    has_scale: bool = False
    weight: int = 2
    is_dry: bool = False
    """Write with dryRun=All only: stored objects would slow down the server, or change what it admits."""

    @property
    def is_custom(self) -> bool:
        return "example.org" in self.api_version

    def collection_path(self, space: str = SPACE) -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{space}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def object_name(self, short: str) -> str:
        if self.kind == "CustomResourceDefinition":
            return f"gadgets.{RUN}.example.org"
        return short if self.namespaced else f"{RUN}-{short}"

    def make(self, rng: random.Random, short: str) -> Fields:
        """Return a valid object."""
        metadata: Fields = {"name": self.object_name(short)}
        if rng.random() < 0.5:
            metadata["labels"] = rng.choice(({"app": "web"}, {"app": "db", "tier": "1"}, {"example.org/a": ""}))
        if rng.random() < 0.15:
            metadata["annotations"] = {"note": "some text", "example.org/x": "1"}
        if rng.random() < 0.08:
            metadata["finalizers"] = ["example.org/keep"]
        if rng.random() < 0.05:
            metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o-uid"}]
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **self.make_fields(rng)}


def make_minimal(path: str, name: str) -> Fields:
    """Return an object for a collection path that every label selector of the campaign selects."""
    example = next(each for each in EXAMPLES if path in (each.collection_path(), each.collection_path(OTHER_SPACE)))
    metadata = {"name": name, "labels": {"app": "web", "tier": "1"}}
    fields = example.make_fields(random.Random(0))
    return {"apiVersion": example.api_version, "kind": example.kind, "metadata": metadata, **fields}


def _config_map(rng: random.Random) -> Fields:
    fields: Fields = {"data": {key: rng.choice(("1", "two", "")) for key in rng.sample("abc", rng.randrange(4))}}
    if rng.random() < 0.2:
        fields["binaryData"] = {"bin": "AAE="}
    if rng.random() < 0.1:
        fields["immutable"] = rng.choice((True, False))
    return fields


def _secret(rng: random.Random) -> Fields:
    kinds: list[Fields] = [
        {"data": {"a": "YQ=="}},
        {"stringData": {"a": "plain"}, "data": {"b": "Yg=="}},
        {"type": "Opaque", "data": {}},
        {"type": "kubernetes.io/basic-auth", "stringData": {"username": "u", "password": "p"}},
        {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "{}"}},
        {"type": "kubernetes.io/dockercfg", "stringData": {".dockercfg": "{}"}},
        {"type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": "k"}},
        {"type": "kubernetes.io/tls", "stringData": {"tls.crt": "c", "tls.key": "k"}},
        {"type": "example.org/own", "data": {}},
    ]
    return {**rng.choice(kinds), **({"immutable": True} if rng.random() < 0.05 else {})}


def _service(rng: random.Random) -> Fields:
    specs: list[Fields] = [
        {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        {"ports": [{"port": 80, "name": "http", "targetPort": "web"}, {"port": 53, "name": "dns", "protocol": "UDP"}]},
        {"clusterIP": "None", "selector": {"app": "web"}},
        {"clusterIP": "None", "ports": [{"port": 80}]},
        {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 80}], "publishNotReadyAddresses": True},
        {"type": "NodePort", "ports": [{"port": 80}]},
        {"type": "LoadBalancer", "ports": [{"port": 80}]},
        {"type": "ExternalName", "externalName": "example.com"},
        {"ports": [{"port": 80}], "sessionAffinity": "ClientIP"},
    ]
    return {"spec": rng.choice(specs)}


def _service_account(rng: random.Random) -> Fields:
    return rng.choice(
        ({}, {"automountServiceAccountToken": False}, {"secrets": [{"name": "s"}], "imagePullSecrets": [{"name": "i"}]})
    )


def _lease(rng: random.Random) -> Fields:
    spec: Fields = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2030-01-01T00:00:00.000000Z"}
    return {"spec": {name: spec[name] for name in rng.sample(sorted(spec), rng.randrange(4))} | {"leaseTransitions": 1}}


def _budget(rng: random.Random) -> Fields:
    selectors: list[Fields] = [
        {"matchLabels": {"app": "web"}},
        {},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
    ]
    bound = rng.choice(({"minAvailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": "10%"}, {"maxUnavailable": 0}))
    policy = rng.choice(({}, {"unhealthyPodEvictionPolicy": "AlwaysAllow"}))
    return {"spec": {"selector": rng.choice(selectors), **bound, **policy}}


def _claim(rng: random.Random) -> Fields:
    spec: Fields = {
        "accessModes": rng.choice((["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"])),
        "resources": {"requests": {"storage": rng.choice(("1Gi", "500M"))}},
    }
    options: Fields = {
        "storageClassName": rng.choice(("", "fast")),
        "volumeMode": rng.choice(("Filesystem", "Block")),
        "selector": {"matchLabels": {"a": "b"}},
        "volumeName": "pv",
    }
    return {"spec": spec | {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 0, 1, 2)))}}


def _priority_class(rng: random.Random) -> Fields:
    policy = rng.choice(({}, {"preemptionPolicy": "Never"}, {"description": "text"}))
    return {"value": rng.choice((0, 5, -5, 1000)), **policy}


def _policy_rules(rng: random.Random) -> list[Fields]:
    rules: list[Fields] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["get"]},
    ]
    return rng.sample(rules, rng.randrange(3))


def _role(rng: random.Random) -> Fields:
    return {"rules": _policy_rules(rng)}


def _cluster_role(rng: random.Random) -> Fields:
    rules = _policy_rules(rng)
    if rng.random() < 0.3:
        rules.append({"nonResourceURLs": ["/healthz"], "verbs": ["get"]})
    return {"rules": rules}


def _role_binding(rng: random.Random) -> Fields:
    subjects: list[Fields] = [
        {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"},
        {"kind": "Group", "name": "team"},
        {"kind": "ServiceAccount", "name": "default", "namespace": SPACE},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": rng.choice(("Role", "ClusterRole")), "name": "view"}
    return {"roleRef": role, "subjects": rng.sample(subjects, rng.randrange(4))}


def _cluster_role_binding(rng: random.Random) -> Fields:
    fields = _role_binding(rng)
    return {**fields, "roleRef": {**fields["roleRef"], "kind": "ClusterRole"}}


def _endpoint_slice(rng: random.Random) -> Fields:
    endpoint: Fields = {"addresses": ["10.1.1.1"], "conditions": {"ready": True}}
    more = rng.choice(({}, {"hostname": "h"}, {"nodeName": "n1", "zone": "z"}))
    ports = rng.choice(([], [{"name": "http", "port": 80}], [{"port": 53, "protocol": "UDP"}]))
    return {"addressType": "IPv4", "endpoints": [{**endpoint, **more}], "ports": ports}


def _event(rng: random.Random) -> Fields:
    about = {"kind": "Pod", "name": "p", "namespace": SPACE, "apiVersion": "v1"}
    more = rng.choice(({}, {"count": 2}, {"source": {"component": "me"}}))
    return {"involvedObject": about, "reason": "Started", "message": "it did", "type": "Normal", **more}


def _crd(rng: random.Random) -> Fields:
    crd = gadget_crd(f"{RUN}.example.org")
    versions = crd["spec"]["versions"]
    crd["spec"]["versions"] = versions[: rng.randrange(1, 4)]
    return {"spec": crd["spec"]}


def _pod_status(rng: random.Random) -> Fields:
    return rng.choice(
        (
            {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]},
            {"phase": rng.choice(("Succeeded", "Failed", "Pending"))},
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"containerStatuses": []},
        )
    )


def _budget_status(rng: random.Random) -> Fields:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return dict.fromkeys(counts, rng.randrange(3))


_RBAC = "rbac.authorization.k8s.io/v1"
EXAMPLES: tuple[KindExample, ...] = (
    KindExample(api_version="v1", kind="ConfigMap", plural="configmaps", make_fields=_config_map, weight=4),
    KindExample(api_version="v1", kind="Secret", plural="secrets", make_fields=_secret, weight=3),
    KindExample(
        api_version="v1",
        kind="Pod",
        plural="pods",
        make_fields=lambda rng: {"spec": make_pod_spec(rng)},
        make_status=_pod_status,
        weight=12,
    ),
    KindExample(api_version="v1", kind="Service", plural="services", make_fields=_service, weight=5),
    KindExample(api_version="v1", kind="ServiceAccount", plural="serviceaccounts", make_fields=_service_account),
    KindExample(api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims", make_fields=_claim),
    KindExample(api_version="v1", kind="Event", plural="events", make_fields=_event, weight=1),
    KindExample(
        api_version="v1", kind="Namespace", plural="namespaces", make_fields=lambda rng: {}, namespaced=False, weight=1
    ),
    KindExample(
        api_version="v1", kind="ResourceQuota", plural="resourcequotas", make_fields=make_resource_quota, is_dry=True
    ),
    KindExample(api_version="v1", kind="LimitRange", plural="limitranges", make_fields=make_limit_range, is_dry=True),
    KindExample(api_version="apps/v1", kind="Deployment", plural="deployments", make_fields=make_deployment, weight=3),
    KindExample(api_version="apps/v1", kind="ReplicaSet", plural="replicasets", make_fields=make_replica_set),
    KindExample(api_version="batch/v1", kind="Job", plural="jobs", make_fields=make_job, weight=3),
    KindExample(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases", make_fields=_lease),
    KindExample(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        make_fields=_budget,
        make_status=_budget_status,
    ),
    KindExample(
        api_version="scheduling.k8s.io/v1",
        kind="PriorityClass",
        plural="priorityclasses",
        make_fields=_priority_class,
        namespaced=False,
    ),
    KindExample(api_version=_RBAC, kind="Role", plural="roles", make_fields=_role),
    KindExample(
        api_version=_RBAC, kind="ClusterRole", plural="clusterroles", make_fields=_cluster_role, namespaced=False
    ),
    KindExample(api_version=_RBAC, kind="RoleBinding", plural="rolebindings", make_fields=_role_binding),
    KindExample(
        api_version=_RBAC,
        kind="ClusterRoleBinding",
        plural="clusterrolebindings",
        make_fields=_cluster_role_binding,
        namespaced=False,
        weight=1,
    ),
    KindExample(
        api_version="discovery.k8s.io/v1", kind="EndpointSlice", plural="endpointslices", make_fields=_endpoint_slice
    ),
    KindExample(
        api_version="apiextensions.k8s.io/v1",
        kind="CustomResourceDefinition",
        plural="customresourcedefinitions",
        make_fields=_crd,
        namespaced=False,
        is_dry=True,
    ),
    KindExample(
        api_version="example.org/v1",
        kind="Gadget",
        plural="gadgets",
        make_fields=lambda rng: {"spec": make_gadget_spec(rng)},
        make_status=make_gadget_status,
        has_scale=True,
        weight=8,
    ),
    KindExample(
        api_version="example.org/v1beta1",
        kind="Gadget",
        plural="gadgets",
        make_fields=lambda rng: {"spec": make_gadget_spec(rng)},
        make_status=make_gadget_status,
        has_scale=True,
        weight=2,
    ),
)


def select_examples(plurals: str) -> tuple[KindExample, ...]:
    """Return the examples of the kinds with some plurals, separated by commas; of all kinds if there are none."""
    names = {name for name in plurals.split(",") if name}
    if unknown := names - {example.plural for example in EXAMPLES}:
        raise SystemExit(f"--kinds: no such kinds in the campaign: {', '.join(sorted(unknown))}")
    return tuple(example for example in EXAMPLES if not names or example.plural in names)
