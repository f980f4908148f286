"""Random valid roles and bindings."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.steps import SPACE

Fields = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"


def make_role(rng: random.Random) -> Fields:
    return {"rules": _make_rules(rng)}


def make_cluster_role(rng: random.Random) -> Fields:
    rules = _make_rules(rng)
    if rng.random() < 0.3:
        rules.append({"nonResourceURLs": ["/healthz", "/api/*"], "verbs": ["get"]})
    aggregation = {"clusterRoleSelectors": [{"matchLabels": {"example.org/to": "x"}}, {"matchExpressions": []}]}
    return {"rules": rules, **({"aggregationRule": aggregation} if rng.random() < 0.15 else {})}


def make_role_binding(rng: random.Random) -> Fields:
    subjects: list[Fields] = [
        {"kind": "User", "name": "ada", "apiGroup": _GROUP},
        {"kind": "Group", "name": "team"},
        {"kind": "ServiceAccount", "name": "default", "namespace": SPACE},
        {"kind": "ServiceAccount", "name": "a.b"},
    ]
    role = {"apiGroup": _GROUP, "kind": rng.choice(("Role", "ClusterRole")), "name": rng.choice(("view", "a:b"))}
    return {"roleRef": role, "subjects": rng.sample(subjects, rng.randrange(4))}


def make_cluster_role_binding(rng: random.Random) -> Fields:
    fields = make_role_binding(rng)
    return {**fields, "roleRef": {**fields["roleRef"], "kind": "ClusterRole"}}


def _make_rules(rng: random.Random) -> list[Fields]:
    rules: list[Fields] = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["x"], "verbs": ["get"]},
        {"apiGroups": ["apps", "batch"], "resources": ["deployments/scale", "jobs"], "verbs": ["update"]},
    ]
    return rng.sample(rules, rng.randrange(3))
