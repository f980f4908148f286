"""Random valid fields of pods that the scheduler reads."""

from __future__ import annotations

import random
from typing import Any

Fields = dict[str, Any]


def make_scheduling_options(rng: random.Random) -> Fields:
    """Return one value of every such field."""
    return {
        "nodeSelector": {"disk": "ssd"},
        "nodeName": "n1",
        "schedulerName": "mine",
        "priorityClassName": rng.choice(("system-node-critical", "none")),
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": rng.sample(_TOLERATIONS, rng.randrange(1, 3)),
        "affinity": _make_affinity(rng),
        "topologySpreadConstraints": [_make_spread_constraint(rng)],
        "schedulingGates": [{"name": "example.org/gate"}],
    }


_TOLERATIONS: tuple[Fields, ...] = (
    {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
    {"key": "example.org/k", "value": "v"},
    {"operator": "Exists"},
    {"key": "k", "operator": "Exists", "effect": "PreferNoSchedule"},
)


def _make_affinity(rng: random.Random) -> Fields:
    kinds = {
        "nodeAffinity": _make_node_affinity(rng),
        "podAffinity": _make_pod_affinity(rng),
        "podAntiAffinity": _make_pod_affinity(rng),
    }
    return {name: kinds[name] for name in rng.sample(sorted(kinds), rng.randrange(1, 3))}


def _make_node_affinity(rng: random.Random) -> Fields:
    expressions: tuple[Fields, ...] = (
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "zone", "operator": "Exists"},
        {"key": "cores", "operator": "Gt", "values": ["4"]},
    )
    term: Fields = {"matchExpressions": [rng.choice(expressions)]}
    field_term: Fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity: Fields = {}
    if rng.random() < 0.6:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term, field_term][:2]}
    if rng.random() < 0.6:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 5, "preference": term}]
    return affinity


def _make_pod_affinity(rng: random.Random) -> Fields:
    term: Fields = {"topologyKey": "zone", **rng.choice(({"labelSelector": _make_selector(rng)}, {}))}
    if rng.random() < 0.3:
        term["namespaces"] = ["default"]
    if rng.random() < 0.2:
        term["namespaceSelector"] = rng.choice(({}, {"matchLabels": {"a": "b"}}))
    if rng.random() < 0.2 and "labelSelector" in term:
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["tier"]
    affinity: Fields = {}
    if rng.random() < 0.6:
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [term]
    if rng.random() < 0.6:
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 5, "podAffinityTerm": term}]
    return affinity


def _make_selector(rng: random.Random) -> Fields:
    return rng.choice(
        (
            {"matchLabels": {"app": "web"}},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        )
    )


def _make_spread_constraint(rng: random.Random) -> Fields:
    options: Fields = {
        "labelSelector": _make_selector(rng),
        "nodeAffinityPolicy": rng.choice(("Honor", "Ignore")),
        "nodeTaintsPolicy": rng.choice(("Honor", "Ignore")),
    }
    chosen = {name: options[name] for name in rng.sample(sorted(options), rng.randrange(3))}
    if "labelSelector" in chosen and rng.random() < 0.3:
        chosen["matchLabelKeys"] = ["tier"]
    action = rng.choice(
        ({"whenUnsatisfiable": "ScheduleAnyway"}, {"whenUnsatisfiable": "DoNotSchedule", "minDomains": 2})
    )
    return {"maxSkew": 1, "topologyKey": "zone", **action, **chosen}
