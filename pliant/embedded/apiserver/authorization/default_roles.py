"""The roles and bindings that exist in every cluster: those of Kubernetes that users and this cluster rely on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pliant.embedded.apiserver.auth.users import (
    AUTHENTICATED_GROUP,
    CONTROLLERS_USER,
    SCHEDULER_USER,
    SUPERUSER_GROUP,
    UNAUTHENTICATED_GROUP,
)
from pliant.embedded.apiserver.authorization.rules import PolicyRule

Manifest = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_EVENT_GROUPS: Final = ("", "events.k8s.io")
_APPS_SCALED: Final = tuple(
    name for plural in ("deployments", "replicasets", "statefulsets") for name in (plural, f"{plural}/scale")
)
_EXTENSIONS_SCALED: Final = (*_APPS_SCALED[:4], "replicationcontrollers/scale")
_POD_STREAMS: Final = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")


def _rule(groups: str | Sequence[str], resources: str, verbs: Sequence[str]) -> PolicyRule:
    api_groups = (groups,) if isinstance(groups, str) else tuple(groups)
    return PolicyRule(tuple(verbs), api_groups, tuple(resources.split()))


def _with_status(*plurals: str) -> str:
    return " ".join(f"{plural} {plural}/status" for plural in plurals)


_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY_PATHS: Final = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH_PATHS)
_ADMIN_RULES: Final = (
    _rule("authorization.k8s.io", "localsubjectaccessreviews", ("create",)),
    _rule(_RBAC, "roles rolebindings", (*_WRITE, *_READ)),
)
_EDIT_RULES: Final = (
    _rule("", " ".join((*_POD_STREAMS, "secrets services/proxy")), _READ),
    _rule("", "serviceaccounts", ("impersonate",)),
    _rule("", " ".join(("pods", *_POD_STREAMS)), _WRITE),
    _rule("", "pods/eviction", ("create",)),
    _rule(
        "",
        "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
        "serviceaccounts services services/proxy",
        _WRITE,
    ),
    _rule("", "serviceaccounts/token", ("create",)),
    _rule(_EVENT_GROUPS, "events", _WRITE),
    _rule("apps", " ".join(("daemonsets deployments/rollback", *_APPS_SCALED)), _WRITE),
    _rule("autoscaling", "horizontalpodautoscalers", _WRITE),
    _rule("batch", "cronjobs jobs", _WRITE),
    _rule(
        "extensions",
        " ".join(("daemonsets deployments/rollback ingresses networkpolicies", *_EXTENSIONS_SCALED)),
        _WRITE,
    ),
    _rule("policy", "poddisruptionbudgets", _WRITE),
    _rule("networking.k8s.io", "ingresses networkpolicies", _WRITE),
    _rule("coordination.k8s.io", "leases", (*_WRITE, *_READ)),
    _rule("resource.k8s.io", "resourceclaims resourceclaimtemplates", _WRITE),
)
_VIEW_RULES: Final = (
    _rule(
        "",
        "configmaps endpoints pods replicationcontrollers replicationcontrollers/scale serviceaccounts "
        + _with_status("persistentvolumeclaims", "services"),
        _READ,
    ),
    _rule(
        "",
        "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status "
        + _with_status("resourcequotas"),
        _READ,
    ),
    _rule("", "namespaces", _READ),
    _rule(_EVENT_GROUPS, "events", _READ),
    _rule("discovery.k8s.io", "endpointslices", _READ),
    _rule(
        "apps",
        "controllerrevisions deployments/scale replicasets/scale statefulsets/scale "
        + _with_status("daemonsets", "deployments", "replicasets", "statefulsets"),
        _READ,
    ),
    _rule("autoscaling", _with_status("horizontalpodautoscalers"), _READ),
    _rule("batch", _with_status("cronjobs", "jobs"), _READ),
    _rule(
        "extensions",
        "networkpolicies deployments/scale replicasets/scale replicationcontrollers/scale "
        + _with_status("daemonsets", "deployments", "ingresses", "replicasets"),
        _READ,
    ),
    _rule("policy", _with_status("poddisruptionbudgets"), _READ),
    _rule("networking.k8s.io", "networkpolicies " + _with_status("ingresses"), _READ),
    _rule("resource.k8s.io", "resourceclaimtemplates " + _with_status("resourceclaims"), _READ),
)
NODE_RULES: Final = (
    _rule("authentication.k8s.io", "tokenreviews", ("create",)),
    _rule("authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews", ("create",)),
    _rule("", "services", _READ),
    _rule("", "nodes", ("create", "patch", "update", *_READ)),
    _rule("", "nodes/status pods/status", ("patch", "update")),
    _rule(_EVENT_GROUPS, "events", ("create", "patch", "update")),
    _rule("", "pods", ("create", "delete", *_READ)),
    _rule("", "pods/eviction serviceaccounts/token", ("create",)),
    _rule("", "configmaps secrets", _READ),
    _rule("", "endpoints persistentvolumeclaims persistentvolumes serviceaccounts", ("get",)),
    _rule("", "persistentvolumeclaims/status", ("get", "patch", "update")),
    _rule("coordination.k8s.io", "leases", ("create", "delete", "get", "patch", "update")),
)
"""The role `system:node`, for what this cluster serves."""
_SCHEDULER_RULES: Final = (
    _rule(_EVENT_GROUPS, "events", ("create", "patch", "update")),
    _rule("", "namespaces nodes persistentvolumeclaims services", _READ),
    _rule("", "pods", ("delete", *_READ)),
    _rule("", "bindings pods/binding", ("create",)),
    _rule("", "pods/status", ("patch", "update")),
    _rule("policy", "poddisruptionbudgets", _READ),
    _rule(("scheduling.x-k8s.io", "scheduling.volcano.sh"), "podgroups", _READ),
    _rule(("scheduling.x-k8s.io", "scheduling.volcano.sh"), "podgroups/status", ("patch", "update")),
)
_CONTROLLER_RULES: Final = (
    _rule("*", "*", ("list", "watch")),
    _rule(_EVENT_GROUPS, "events", ("create", "get", "patch", "update")),
    _rule("", "nodes", ("create", "delete", "get", "patch")),
    _rule("", "pods", ("create", "delete", "get", "patch")),
    _rule("", "persistentvolumeclaims", ("get", "patch")),
    _rule("", "services", ("create", "get", "patch")),
    _rule("", "nodes/status persistentvolumeclaims/status pods/status", ("patch",)),
    _rule("apps", "deployments", ("get", "patch")),
    _rule("apps", "replicasets", ("create", "delete", "get", "patch")),
    _rule("apps", "deployments/finalizers replicasets/finalizers", ("update",)),
    _rule("apps", "deployments/status replicasets/status", ("patch",)),
    _rule("batch", "jobs", ("delete", "get", "patch")),
    _rule("batch", "jobs/finalizers", ("update",)),
    _rule("batch", "jobs/status", ("patch",)),
    _rule("discovery.k8s.io", "endpointslices", ("create", "delete", "get", "patch")),
    _rule("policy", "poddisruptionbudgets/status", ("patch",)),
)
"""What the controllers of this cluster do; those of Kubernetes have a role each."""
_METRICS_RULES: Final = (_rule("metrics.k8s.io", "nodes pods", _READ),)
"""The role that metrics-server installs, for `kubectl top`."""
_BASIC_USER_RULES: Final = (
    _rule("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", ("create",)),
    _rule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
)


def default_role_manifests() -> Iterator[Manifest]:
    """Yield the cluster roles; `admin`, `edit` and `view` collect the rules of all roles with their label."""
    everything = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(("*",), non_resource_urls=("*",)))
    yield _cluster_role("cluster-admin", everything)
    for name, rules, aggregate_to in (
        ("admin", _ADMIN_RULES, ""),
        ("edit", _EDIT_RULES, "admin"),
        ("view", _VIEW_RULES, "edit"),
    ):
        selector = {"matchLabels": {_aggregation_label(name): "true"}}
        role = _cluster_role(name, (), *filter(None, [aggregate_to]))
        yield {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}}
        yield _cluster_role(f"system:aggregate-to-{name}", rules, name)
    yield _cluster_role("system:aggregated-metrics-reader", _METRICS_RULES, "admin", "edit", "view")
    yield _cluster_role("system:basic-user", _BASIC_USER_RULES)
    yield _cluster_role("system:discovery", (PolicyRule(("get",), non_resource_urls=_DISCOVERY_PATHS),))
    yield _cluster_role("system:public-info-viewer", (PolicyRule(("get",), non_resource_urls=_HEALTH_PATHS),))
    yield _cluster_role("system:node", NODE_RULES)
    yield _cluster_role(SCHEDULER_USER["username"], _SCHEDULER_RULES)
    yield _cluster_role(CONTROLLERS_USER["username"], _CONTROLLER_RULES)


def default_binding_manifests() -> Iterator[Manifest]:
    yield _cluster_role_binding("cluster-admin", "Group", SUPERUSER_GROUP)
    yield _cluster_role_binding("system:basic-user", "Group", AUTHENTICATED_GROUP)
    yield _cluster_role_binding("system:discovery", "Group", AUTHENTICATED_GROUP)
    yield _cluster_role_binding("system:public-info-viewer", "Group", AUTHENTICATED_GROUP, UNAUTHENTICATED_GROUP)
    for user in (SCHEDULER_USER, CONTROLLERS_USER):
        yield _cluster_role_binding(user["username"], "User", user["username"])


def _aggregation_label(role: str) -> str:
    return f"{_RBAC}/aggregate-to-{role}"


def _cluster_role(name: str, rules: Sequence[PolicyRule], *aggregate_to: str) -> Manifest:
    labels = {_aggregation_label(role): "true" for role in aggregate_to}
    return {**_default_object("ClusterRole", name, labels), "rules": [rule.to_raw() for rule in rules]}


def _cluster_role_binding(name: str, subject_kind: str, *subjects: str) -> Manifest:
    return {
        **_default_object("ClusterRoleBinding", name, {}),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": subject_kind, "apiGroup": _RBAC, "name": subject} for subject in subjects],
    }


def _default_object(kind: str, name: str, labels: dict[str, str]) -> Manifest:
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **labels},
        "annotations": {AUTO_UPDATE_ANNOTATION: "true"},
    }
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}


AUTO_UPDATE_ANNOTATION: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""A default role with the value `false` is not repaired when the cluster starts."""
