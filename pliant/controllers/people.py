"""Roles for people: whoever may view or edit a namespace may view or edit the training jobs in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pliant.controllers.roles import RBAC, Manifest

VIEW = ("get", "list", "watch")
EDIT = ("create", "delete", "deletecollection", "patch", "update")


def people_manifests(definitions: Iterable[Manifest], suffix: str) -> Iterator[Manifest]:
    """Cluster roles that Kubernetes adds to its own `view`, `edit` and `admin`; nobody need be bound to them."""
    kinds = [(crd["spec"]["group"], crd["spec"]["names"]["plural"], _parts(crd)) for crd in definitions]
    visible: dict[str, list[str]] = {}
    editable: dict[str, list[str]] = {}
    for group, plural, parts in kinds:
        visible.setdefault(group, []).extend([plural, *(f"{plural}/{part}" for part in parts)])
        # Statuses are the operator's to write.
        editable.setdefault(group, []).extend([plural, *(f"{plural}/{part}" for part in parts if part == "scale")])
    yield _role(f"pliant-view.{suffix}", ("view",), _rules(visible, VIEW))
    yield _role(f"pliant-edit.{suffix}", ("edit", "admin"), _rules(editable, EDIT))


def _parts(crd: Manifest) -> list[str]:
    """The subresources of a kind, in any of its versions."""
    return sorted({part for version in crd["spec"]["versions"] for part in version.get("subresources", {})})


def _rules(resources: Mapping[str, list[str]], verbs: Iterable[str]) -> list[Manifest]:
    """One rule for each API group."""
    return [{"apiGroups": [group], "resources": names, "verbs": [*verbs]} for group, names in resources.items()]


def _role(name: str, into: Iterable[str], rules: list[Manifest]) -> Manifest:
    labels: dict[str, Any] = {f"{RBAC}/aggregate-to-{role}": "true" for role in into}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}
