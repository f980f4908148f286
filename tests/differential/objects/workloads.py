"""Random valid Deployments, ReplicaSets, Jobs, revisions, quotas and limits."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.objects.pods import make_overhead, make_pod_spec

Fields = dict[str, Any]
_LABELS = {"app": "web"}
_SELECTORS: tuple[Fields, ...] = (
    {"matchLabels": _LABELS},
    {"matchLabels": _LABELS},
    {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
    {"matchLabels": _LABELS, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
)


def make_deployment(rng: random.Random) -> Fields:
    strategies: tuple[Fields, ...] = (
        {"type": "Recreate"},
        {"type": "RollingUpdate"},
        {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
        {"rollingUpdate": {"maxUnavailable": "100%", "maxSurge": "200%"}},
    )
    options: Fields = {
        "strategy": rng.choice(strategies),
        "minReadySeconds": 5,
        "progressDeadlineSeconds": rng.choice((100, 2**31 - 1)),
        "revisionHistoryLimit": rng.choice((0, 2)),
        "paused": True,
    }
    return {"spec": {**_make_replicated_spec(rng), **_choose(rng, options)}}


def make_replica_set(rng: random.Random) -> Fields:
    return {"spec": {**_make_replicated_spec(rng), **_choose(rng, {"minReadySeconds": 5})}}


def make_revision(rng: random.Random) -> Fields:
    data: tuple[Any, ...] = ({"spec": {"a": 1}}, {"apiVersion": "v1", "kind": "X"}, {}, [1], "x", 5)
    return {"data": rng.choice(data), "revision": rng.choice((0, 1, 5))}


def make_resource_quota(rng: random.Random) -> Fields:
    """Return a quota with resources that its scopes can restrict."""
    counts: Fields = {"pods": "5"}
    compute: Fields = {"requests.cpu": "1", "limits.memory": "1.5Gi"}
    specs: tuple[Fields, ...] = (
        {"hard": counts},
        {"hard": compute},
        {"hard": {"count/secrets": 3, "count/deployments.apps": "2"}},
        {"hard": {"requests.nvidia.com/gpu": "2", "requests.storage": "1Gi"}},
        {"hard": {"fast.storageclass.storage.k8s.io/requests.storage": "1Gi", "services.nodeports": "1"}},
        {"hard": {"hugepages-2Mi": "4Mi", "requests.ephemeral-storage": "1Gi", "cpu": "1"}},
        {"hard": counts, "scopes": ["BestEffort"]},
        {"hard": {**counts, **compute}, "scopes": ["NotBestEffort"]},
        {"hard": {**counts, **compute}, "scopes": ["Terminating", "NotBestEffort"]},
        {"hard": counts, "scopes": ["NotTerminating"]},
        {"hard": counts, "scopes": ["PriorityClass"]},
        {"hard": {**counts, **compute}, "scopes": ["CrossNamespacePodAffinity"]},
        {"hard": counts, "scopeSelector": {"matchExpressions": [_make_scope_expression(rng)]}},
    )
    return {"spec": rng.choice(specs)}


def _make_scope_expression(rng: random.Random) -> Fields:
    return rng.choice(
        (
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high", "low"]},
            {"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]},
            {"scopeName": "PriorityClass", "operator": "Exists"},
            {"scopeName": "PriorityClass", "operator": "DoesNotExist"},
            {"scopeName": "Terminating", "operator": "Exists"},
            {"scopeName": "BestEffort", "operator": "Exists"},
        )
    )


def make_limit_range(rng: random.Random) -> Fields:
    limits: list[Fields] = [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Container", "max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}},
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "4"}, "max": {"cpu": "4", "memory": "2Gi"}},
        {"type": "Container", "default": {"nvidia.com/gpu": "1"}, "defaultRequest": {"nvidia.com/gpu": "1"}},
        {"type": "Container", "max": {"hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi"}},
        {"type": "Pod", "max": {"cpu": "2"}},
        {"type": "Pod", "min": {"memory": "1Mi"}, "maxLimitRequestRatio": {"memory": "1500m"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "5Gi"}, "min": {"storage": "1Gi"}},
        {"type": "example.org/Thing", "max": {"example.org/size": "5"}},
    ]
    return {"spec": {"limits": rng.sample(limits, rng.randrange(1, 3))}}


def _make_replicated_spec(rng: random.Random) -> Fields:
    template = {
        "metadata": {"labels": _LABELS},
        "spec": {**make_pod_spec(rng), **make_overhead(rng), "restartPolicy": "Always"},
    }
    template["spec"].pop("activeDeadlineSeconds", None)
    return {"replicas": rng.randrange(3), "selector": rng.choice(_SELECTORS), "template": template}


def _choose(rng: random.Random, options: Fields) -> Fields:
    return {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 0, 1, min(2, len(options)))))}
