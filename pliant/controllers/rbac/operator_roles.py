"""Roles of the operator's service account, with least privilege."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pliant.controllers.rbac.permissions import Permission, PermissionScope

RBAC_API_GROUP = "rbac.authorization.k8s.io"
RawManifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAccount:
    namespace: str
    name: str


def operator_role_manifests(
    permissions: Iterable[Permission], account: OperatorAccount, namespaces: tuple[str, ...]
) -> Iterator[RawManifest]:
    """Yield the roles and bindings; with `namespaces`, the cluster-wide permissions are only on cluster-scoped objects.

    Names include the account's namespace, so that two installations on one cluster do not share roles.
    """
    by_scope: dict[PermissionScope, list[Permission]] = {scope: [] for scope in PermissionScope}
    for permission in permissions:
        by_scope[permission.scope].append(permission)
    name = f"{account.name}.{account.namespace}"
    cluster_wide = by_scope[PermissionScope.CLUSTER] + ([] if namespaces else by_scope[PermissionScope.JOB_NAMESPACES])
    yield from _role_and_binding(name, None, cluster_wide, account)
    for namespace in namespaces:
        yield from _role_and_binding(name, namespace, by_scope[PermissionScope.JOB_NAMESPACES], account)
    yield from _role_and_binding(
        f"{account.name}-lease", account.namespace, by_scope[PermissionScope.OPERATOR_NAMESPACE], account
    )


def _role_and_binding(
    name: str, namespace: str | None, permissions: Iterable[Permission], account: OperatorAccount
) -> tuple[RawManifest, RawManifest]:
    """Return a Role and its RoleBinding, or their cluster-wide forms if there is no namespace."""
    api_version, kind = f"{RBAC_API_GROUP}/v1", "ClusterRole" if namespace is None else "Role"
    meta = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    role = {"apiVersion": api_version, "kind": kind, "metadata": meta, "rules": merge_policy_rules(permissions)}
    binding = {
        "apiVersion": api_version,
        "kind": f"{kind}Binding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC_API_GROUP, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }
    return role, binding


def merge_policy_rules(permissions: Iterable[Permission]) -> list[RawManifest]:
    """Merge permissions into few rules: resources of one API group with the same verbs share a rule."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for permission in permissions:
        key = (permission.group, permission.resource_name, permission.resource_path)
        verbs.setdefault(key, set()).update(permission.verbs)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, path), all_verbs in verbs.items():
        resources.setdefault((group, name, tuple(sorted(all_verbs))), []).append(path)
    return [_policy_rule(group, paths, all_verbs, name) for (group, name, all_verbs), paths in resources.items()]


def policy_rule(permission: Permission) -> RawManifest:
    return _policy_rule(permission.group, [permission.resource_path], permission.verbs, permission.resource_name)


def _policy_rule(api_group: str, resources: list[str], verbs: Iterable[str], resource_name: str) -> RawManifest:
    only = {"resourceNames": [resource_name]} if resource_name else {}
    return {"apiGroups": [api_group], "resources": resources, "verbs": [*verbs], **only}
