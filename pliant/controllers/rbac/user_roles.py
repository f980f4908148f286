"""Roles for users: the roles view, edit and admin include training jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pliant.controllers.rbac.operator_roles import RBAC_API_GROUP, RawManifest

VIEW_VERBS = ("get", "list", "watch")
EDIT_VERBS = ("create", "delete", "deletecollection", "patch", "update")


def user_role_manifests(crds: Iterable[RawManifest], suffix: str) -> Iterator[RawManifest]:
    """Yield cluster roles that Kubernetes aggregates into `view`, `edit` and `admin`; they need no bindings."""
    kinds = [(crd["spec"]["group"], crd["spec"]["names"]["plural"], _crd_subresources(crd)) for crd in crds]
    visible: dict[str, list[str]] = {}
    editable: dict[str, list[str]] = {}
    for group, plural, parts in kinds:
        visible.setdefault(group, []).extend([plural, *(f"{plural}/{part}" for part in parts)])
        # Only the operator writes statuses.
        editable.setdefault(group, []).extend([plural, *(f"{plural}/{part}" for part in parts if part == "scale")])
    yield _aggregated_cluster_role(f"pliant-view.{suffix}", ("view",), _policy_rules(visible, VIEW_VERBS))
    yield _aggregated_cluster_role(f"pliant-edit.{suffix}", ("edit", "admin"), _policy_rules(editable, EDIT_VERBS))


def _crd_subresources(crd: RawManifest) -> list[str]:
    return sorted({part for version in crd["spec"]["versions"] for part in version.get("subresources", {})})


def _policy_rules(resources: Mapping[str, list[str]], verbs: Iterable[str]) -> list[RawManifest]:
    return [{"apiGroups": [group], "resources": names, "verbs": [*verbs]} for group, names in resources.items()]


def _aggregated_cluster_role(name: str, aggregate_to: Iterable[str], rules: list[RawManifest]) -> RawManifest:
    labels: dict[str, Any] = {f"{RBAC_API_GROUP}/aggregate-to-{role}": "true" for role in aggregate_to}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"{RBAC_API_GROUP}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}
