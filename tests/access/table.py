"""Roles, bindings and requests, with the answer that Kubernetes gives: who may do what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pliant.embedded.apiserver.auth.users import UserInfo

SPACE, OTHER = "rights", "elsewhere"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
REVIEWS = "/apis/authorization.k8s.io/v1"
IN = f"/api/v1/namespaces/{SPACE}"
RBAC_IN = f"{RBAC}/namespaces/{SPACE}"
MERGE = "application/merge-patch+json"


def user(name: str, *groups: str) -> UserInfo:
    return {"username": name, "groups": [*groups, "system:authenticated"]}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A request of a user, and whether it is allowed."""

    who: str
    method: str = "GET"
    path: str
    allowed: bool
    body: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"
    same_words: bool = True
    """Whether a real server explains it; otherwise only the decision is compared."""

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.who} {self.method} {self.path}{query and '?'}{query} {self.body or ''}"


USERS = {
    each["username"]: each
    for each in (
        user("nobody"),
        user("reader"),
        user("named"),
        user("member", "team"),
        user("wild"),
        user("scaler"),
        user("viewer"),
        user("editor"),
        user("administrator"),
        user("lost"),
        user("patcher"),
        user("granter"),
        user("binder"),
        user("escalator"),
        user("system:node:n1", "system:nodes"),
    )
}


def rule(groups: str, resources: str, verbs: str, names: str = "") -> dict[str, Any]:
    """A rule of words; `core` is the group without a name."""
    api_groups = ["" if each == "core" else each for each in groups.split()]
    found: dict[str, Any] = {"apiGroups": api_groups, "resources": resources.split(), "verbs": verbs.split()}
    return {**found, "resourceNames": names.split()} if names else found


def role(name: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def binding(name: str, kind: str, role_name: str, *subjects: tuple[str, str]) -> dict[str, Any]:
    found = [{"kind": each, "name": subject} for each, subject in subjects]
    return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": role_name}, "subjects": found}


def setup() -> Iterator[tuple[str, dict[str, Any]]]:
    """What the owner of the cluster creates first."""
    for space in (SPACE, OTHER):
        yield "/api/v1/namespaces", {"metadata": {"name": space}}
    yield f"{IN}/configmaps", {"metadata": {"name": "a"}, "data": {"x": "1"}}
    everyone = {
        "read-pods": rule("core", "pods configmaps", "get list watch"),
        "read-a": rule("core", "configmaps", "get update list watch", "a"),
        "read-logs": rule("core", "pods/log", "get"),
        "patch": rule("core", "configmaps", "patch"),
        "scale": rule("*", "*/scale", "update"),
        "make-roles": rule(GROUP, "roles rolebindings", "create update patch get"),
        "bind": rule(GROUP, "roles", "bind", "read-pods"),
        "escalate": rule(GROUP, "roles", "escalate"),
    }
    for name, each in everyone.items():
        yield f"{RBAC_IN}/roles", role(name, each)
    bindings = f"{RBAC_IN}/rolebindings"
    yield bindings, binding("read-pods", "Role", "read-pods", ("User", "reader"), ("User", "granter"))
    yield bindings, binding("read-a", "Role", "read-a", ("User", "named"))
    yield bindings, binding("read-logs", "Role", "read-logs", ("Group", "team"))
    yield bindings, binding("patch", "Role", "patch", ("User", "patcher"))
    yield bindings, binding("scale", "Role", "scale", ("User", "scaler"))
    makers = ("granter", "binder", "escalator")
    yield bindings, binding("make-roles", "Role", "make-roles", *(("User", each) for each in makers))
    yield bindings, binding("bind", "Role", "bind", ("User", "binder"))
    yield bindings, binding("escalate", "Role", "escalate", ("User", "escalator"))
    yield bindings, binding("view", "ClusterRole", "view", ("User", "viewer"))
    yield bindings, binding("edit", "ClusterRole", "edit", ("User", "editor"))
    yield bindings, binding("admin", "ClusterRole", "admin", ("User", "administrator"))
    yield bindings, binding("lost", "Role", "missing", ("User", "lost"))
    yield (
        f"{RBAC}/clusterroles",
        role("wild", rule("*", "*", "get list"), {"nonResourceURLs": ["/x/*"], "verbs": ["*"]}),
    )
    yield f"{RBAC}/clusterrolebindings", binding("wild", "ClusterRole", "wild", ("User", "wild"))


def trials() -> Iterator[Trial]:
    yield from _reads()
    yield from _default_roles()
    yield from _grants()
    yield from _changes()
    yield from _applied()
    yield from _nodes()


def _reads() -> Iterator[Trial]:
    pods, maps, a = f"{IN}/pods", f"{IN}/configmaps", f"{IN}/configmaps/a"
    for who, allowed in (("nobody", False), ("reader", True), ("wild", True), ("member", False)):
        yield Trial(who=who, path=pods, allowed=allowed)
    yield Trial(who="reader", path="/api/v1/pods", allowed=False)
    yield Trial(who="reader", path=f"/api/v1/namespaces/{OTHER}/pods", allowed=False)
    yield Trial(who="wild", path="/api/v1/pods", allowed=True)
    yield Trial(who="wild", method="DELETE", path=pods, allowed=False)
    yield Trial(who="reader", method="DELETE", path=f"{pods}/p", allowed=False)
    yield Trial(who="reader", method="POST", path=maps, body={"metadata": {"name": "n"}}, allowed=False)
    yield Trial(who="reader", path=f"{pods}/p/log", allowed=False)
    yield Trial(who="member", path=f"{pods}/p/log", allowed=True)
    yield Trial(who="named", path=a, allowed=True)
    yield Trial(who="named", path=f"{maps}/b", allowed=False)
    yield Trial(who="named", path=maps, allowed=False)
    yield Trial(who="named", path=maps, query={"fieldSelector": "metadata.name=a"}, allowed=True)
    yield Trial(who="named", path=maps, query={"fieldSelector": "metadata.name!=a"}, allowed=False)
    evasive = "metadata.namespace!=x\\,metadata.name=a"
    yield Trial(who="named", path=maps, query={"fieldSelector": evasive}, allowed=False)
    watch = {"watch": "true", "timeoutSeconds": "1", "fieldSelector": "metadata.name=a", "resourceVersion": "0"}
    yield Trial(who="named", path=maps, query={**watch, "fieldSelector": "metadata.name=b"}, allowed=False)
    yield Trial(who="named", method="PATCH", path=a, body={"data": {"x": "2"}}, media=MERGE, allowed=False)
    for who in ("scaler", "reader"):
        review = _review(verb="update", group="apps", resource="deployments", subresource="scale")
        yield Trial(who=who, method="POST", path=f"{REVIEWS}/selfsubjectaccessreviews", body=review, allowed=True)
    yield Trial(who="nobody", path=f"/api/v1/namespaces/{SPACE}", allowed=False)
    yield Trial(who="viewer", path=f"/api/v1/namespaces/{SPACE}", allowed=True)
    for path, allowed in (("/api", True), ("/version", True), ("/metrics", False), ("/x", False)):
        yield Trial(who="nobody", path=path, allowed=allowed)
    yield Trial(who="nobody", path="/apis/example.org/v1/things/x", allowed=False)
    yield Trial(who="nobody", method="DELETE", path=f"/apis/example.org/v1/namespaces/{SPACE}/things", allowed=False)
    yield Trial(who="nobody", method="POST", path="/x/y", body={}, allowed=False)
    yield Trial(who="lost", path=pods, allowed=False)
    yield Trial(who="nobody", method="POST", path=f"{pods}/p/exec", allowed=False)
    yield Trial(who="nobody", method="POST", path=f"{pods}/p/eviction", body={}, allowed=False)
    yield Trial(who="nobody", method="POST", path=f"{IN}/serviceaccounts/default/token", body={}, allowed=False)


def _default_roles() -> Iterator[Trial]:
    """The roles of Kubernetes; those that aggregate others are asked through their parts."""
    asked = {
        "reader": [("get", "pods"), ("list", "configmaps"), ("delete", "pods"), ("get", "secrets")],
        "nobody": [("create", "pods"), ("impersonate", "users")],
        "wild": [("get", "secrets"), ("create", "secrets")],
        "viewer": [("list", "pods"), ("get", "secrets"), ("create", "pods"), ("list", "events"), ("list", "nodes")],
        "editor": [("create", "pods"), ("get", "secrets"), ("impersonate", "serviceaccounts"), ("update", "bindings")],
        "administrator": [("delete", "services"), ("update", "resourcequotas"), ("get", "namespaces")],
    }
    for who, questions in asked.items():
        for verb, resource in questions:
            body = _review(verb=verb, resource=resource)
            yield Trial(who=who, method="POST", path=f"{REVIEWS}/selfsubjectaccessreviews", body=body, allowed=True)
    for who, allowed in (("viewer", False), ("editor", False), ("administrator", True)):
        yield Trial(who=who, path=f"{RBAC_IN}/roles", allowed=allowed)
    for path in ("/openapi/v3", "/x/1", "/metrics"):
        body = {"spec": {"nonResourceAttributes": {"verb": "get", "path": path}}}
        for who in ("nobody", "wild"):
            yield Trial(who=who, method="POST", path=f"{REVIEWS}/selfsubjectaccessreviews", body=body, allowed=True)
    for who in ("reader", "nobody", "lost"):
        body = {"spec": {"namespace": SPACE}}
        yield Trial(who=who, method="POST", path=f"{REVIEWS}/selfsubjectrulesreviews", body=body, allowed=True)
    for body in ({}, {"spec": {}}, {"spec": {"namespace": ""}}):
        yield Trial(who="nobody", method="POST", path=f"{REVIEWS}/selfsubjectrulesreviews", body=body, allowed=True)
    yield Trial(
        who="nobody", method="POST", path=f"{REVIEWS}/selfsubjectaccessreviews", body={"spec": {}}, allowed=True
    )
    other = {**_review(verb="get", resource="pods")["spec"], "user": "reader"}
    yield Trial(
        who="reader", method="POST", path=f"{REVIEWS}/subjectaccessreviews", body={"spec": other}, allowed=False
    )
    yield Trial(who="reader", path=f"{REVIEWS}/selfsubjectaccessreviews", allowed=False)


def _grants() -> Iterator[Trial]:
    """Roles and bindings that grant what the user has, and what the user has not."""
    roles, bindings = f"{RBAC_IN}/roles", f"{RBAC_IN}/rolebindings"
    held, more = rule("core", "pods", "get list"), rule("core", "pods secrets", "get delete")
    named = rule("core apps", "deployments", "get", "x")
    yield Trial(who="granter", method="POST", path=roles, body=role("held", held), allowed=True)
    yield Trial(who="granter", method="POST", path=roles, body=role("more", more, named), allowed=False)
    yield Trial(who="granter", method="POST", path=roles, body=role("all", rule("*", "*", "*")), allowed=False)
    yield Trial(who="escalator", method="POST", path=roles, body=role("more", more), allowed=True)
    to_self = ("User", "granter")
    yield Trial(
        who="granter", method="POST", path=bindings, body=binding("own", "Role", "read-pods", to_self), allowed=True
    )
    for name, kind, target in (("admin-2", "ClusterRole", "cluster-admin"), ("more", "Role", "more")):
        body = binding(name, kind, target, to_self)
        yield Trial(who="granter", method="POST", path=bindings, body=body, allowed=False)
    body = binding("none", "Role", "none", to_self)
    yield Trial(who="granter", method="POST", path=bindings, body=body, allowed=True)  # 404: there is no such role
    for name, target, allowed in (("bound", "read-pods", True), ("unbound", "more", False)):
        body = binding(name, "Role", target, ("User", "x"))
        yield Trial(who="binder", method="POST", path=bindings, body=body, allowed=allowed)
    yield Trial(who="granter", method="POST", path=f"{RBAC}/clusterroles", body=role("c", held), allowed=False)
    aggregated = {"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    yield Trial(who="granter", method="POST", path=f"{RBAC}/clusterroles", body=aggregated, allowed=False)


def _changes() -> Iterator[Trial]:
    roles, bindings = f"{RBAC_IN}/roles", f"{RBAC_IN}/rolebindings"
    labels, finalizers = {"metadata": {"labels": {"a": "b"}}}, {"metadata": {"finalizers": ["example.org/f"]}}
    for body, allowed in ((labels, False), (finalizers, True), ({"metadata": {"finalizers": None}}, True)):
        yield Trial(who="granter", method="PATCH", path=f"{roles}/more", body=body, media=MERGE, allowed=allowed)
    less = {"rules": [rule("core", "pods", "get")]}
    yield Trial(who="granter", method="PATCH", path=f"{roles}/more", body=less, media=MERGE, allowed=True)
    yield Trial(who="binder", method="PATCH", path=f"{bindings}/bound", body=labels, media=MERGE, allowed=True)


def _applied() -> Iterator[Trial]:
    """Server-side apply creates what is not there only for those who may create it."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "1"}}
    apply: dict[str, Any] = {"method": "PATCH", "query": {"fieldManager": "m"}, "media": "application/apply-patch+yaml"}
    yield Trial(who="patcher", path=f"{IN}/configmaps/a", body=body, allowed=True, **apply)
    new = {**body, "metadata": {"name": "new"}}
    path = f"{IN}/configmaps/new"
    yield Trial(who="patcher", path=path, body=new, allowed=False, same_words=False, **apply)


def _nodes() -> Iterator[Trial]:
    who = "system:node:n1"
    for path in ("/api/v1/nodes", "/api/v1/nodes/n2", f"{IN}/secrets", f"{IN}/secrets/s", "/api/v1/secrets"):
        yield Trial(who=who, path=path, allowed=False)
    yield Trial(who=who, path=f"{IN}/pods", allowed=False)
    yield Trial(who=who, path=f"{IN}/pods/p", allowed=False)
    yield Trial(who=who, path="/api/v1/pods", query={"fieldSelector": "spec.nodeName=n1"}, allowed=True)
    yield Trial(who=who, path="/api/v1/pods", query={"fieldSelector": "spec.nodeName=n2"}, allowed=False)
    yield Trial(who=who, method="POST", path=f"{IN}/secrets", body={"metadata": {"name": "s"}}, allowed=False)
    yield Trial(who=who, path="/api/v1/services", allowed=True)
    yield Trial(who=who, method="POST", path=f"{IN}/serviceaccounts/default/token", body={}, allowed=False)
    body = {"spec": {"namespace": SPACE}}
    yield Trial(who=who, method="POST", path=f"{REVIEWS}/selfsubjectrulesreviews", body=body, allowed=True)


def _review(**attributes: str) -> dict[str, Any]:
    return {"spec": {"resourceAttributes": {"namespace": SPACE, **attributes}}}
