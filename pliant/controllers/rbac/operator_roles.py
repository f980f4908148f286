"""Roles for the operator's account: exactly the rights it needs, where it needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pliant.controllers.rbac.permissions import Permission, PermissionScope

RBAC_API_GROUP = "rbac.authorization.k8s.io"
RawManifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAccount:
    """Under which the operator runs."""

    namespace: str
    name: str


def operator_role_manifests(
    permissions: Iterable[Permission], account: OperatorAccount, namespaces: tuple[str, ...]
) -> Iterator[RawManifest]:
    """Roles and their bindings; with namespaces to watch, nothing but nodes can be seen outside of them.

    Names hold the account's namespace, so that two installations on one cluster leave each other's alone.
    """
    by_place: dict[PermissionScope, list[Permission]] = {place: [] for place in PermissionScope}
    for right in permissions:
        by_place[right.scope].append(right)
    name = f"{account.name}.{account.namespace}"
    everywhere = by_place[PermissionScope.CLUSTER] + ([] if namespaces else by_place[PermissionScope.JOB_NAMESPACES])
    yield from _role_and_binding(name, None, everywhere, account)
    for namespace in namespaces:
        yield from _role_and_binding(name, namespace, by_place[PermissionScope.JOB_NAMESPACES], account)
    yield from _role_and_binding(
        f"{account.name}-lease", account.namespace, by_place[PermissionScope.OPERATOR_NAMESPACE], account
    )


def _role_and_binding(
    name: str, namespace: str | None, permissions: Iterable[Permission], account: OperatorAccount
) -> tuple[RawManifest, RawManifest]:
    """A role and who has it: in one namespace, or in the whole cluster."""
    prefix = "Cluster" if namespace is None else ""
    meta = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    role = {
        "apiVersion": f"{RBAC_API_GROUP}/v1",
        "kind": f"{prefix}Role",
        "metadata": meta,
        "rules": merge_policy_rules(permissions),
    }
    binding = {
        "apiVersion": f"{RBAC_API_GROUP}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC_API_GROUP, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }
    return role, binding


def merge_policy_rules(permissions: Iterable[Permission]) -> list[RawManifest]:
    """Grant these rights with few rules: resources of one API group that take the same verbs share a rule."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for right in permissions:
        verbs.setdefault((right.group, right.resource_name, right.resource_path), set()).update(right.verbs)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, path), every in verbs.items():
        resources.setdefault((group, name, tuple(sorted(every))), []).append(path)
    return [_policy_rule(group, paths, every, name) for (group, name, every), paths in resources.items()]


def policy_rule(permission: Permission) -> RawManifest:
    """A right as roles say it."""
    return _policy_rule(permission.group, [permission.resource_path], permission.verbs, permission.resource_name)


def _policy_rule(api_group: str, resources: list[str], verbs: Iterable[str], resource_name: str) -> RawManifest:
    only = {"resourceNames": [resource_name]} if resource_name else {}
    return {"apiGroups": [api_group], "resources": resources, "verbs": [*verbs], **only}
