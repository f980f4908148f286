"""Roles for the operator's account: exactly the rights it needs, where it needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pliant.controllers.rights import Right, Where

RBAC = "rbac.authorization.k8s.io"
Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Under which the operator runs."""

    namespace: str
    name: str


def role_manifests(rights: Iterable[Right], account: Account, watched: tuple[str, ...]) -> Iterator[Manifest]:
    """Roles and their bindings; with namespaces to watch, nothing but nodes can be seen outside of them.

    Names hold the account's namespace, so that two installations on one cluster leave each other's alone.
    """
    by_place: dict[Where, list[Right]] = {place: [] for place in Where}
    for right in rights:
        by_place[right.where].append(right)
    name = f"{account.name}.{account.namespace}"
    everywhere = by_place[Where.CLUSTER] + ([] if watched else by_place[Where.JOBS])
    yield from _granted(name, None, everywhere, account)
    for namespace in watched:
        yield from _granted(name, namespace, by_place[Where.JOBS], account)
    yield from _granted(f"{account.name}-lease", account.namespace, by_place[Where.HOME], account)


def _granted(
    name: str, namespace: str | None, rights: Iterable[Right], account: Account
) -> tuple[Manifest, Manifest]:
    """A role and who has it: in one namespace, or in the whole cluster."""
    prefix = "Cluster" if namespace is None else ""
    meta = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{prefix}Role",
        "metadata": meta,
        "rules": merge_rules(rights),
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": f"{prefix}RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    }
    return role, binding


def merge_rules(rights: Iterable[Right]) -> list[Manifest]:
    """Grant these rights with few rules: resources of one API group that take the same verbs share a rule."""
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.name, right.path), set()).update(right.verbs)
    resources: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, path), every in verbs.items():
        resources.setdefault((group, name, tuple(sorted(every))), []).append(path)
    return [_rule(group, paths, every, name) for (group, name, every), paths in resources.items()]


def rule_of(right: Right) -> Manifest:
    """A right as roles say it."""
    return _rule(right.group, [right.path], right.verbs, right.name)


def _rule(group: str, resources: list[str], verbs: Iterable[str], name: str) -> Manifest:
    only = {"resourceNames": [name]} if name else {}
    return {"apiGroups": [group], "resources": resources, "verbs": [*verbs], **only}
