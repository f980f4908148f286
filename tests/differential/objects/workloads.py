"""Random valid Deployments, ReplicaSets, Jobs, quotas and limits."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.objects.pods import make_pod_spec

Fields = dict[str, Any]
_LABELS = {"app": "web"}


def make_deployment(rng: random.Random) -> Fields:
    options: Fields = {
        "strategy": rng.choice(({"type": "Recreate"}, {"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}})),
        "minReadySeconds": 5,
        "progressDeadlineSeconds": 100,
        "revisionHistoryLimit": 2,
        "paused": True,
    }
    return {"spec": {**_make_replicated_spec(rng), **_choose(rng, options)}}


def make_replica_set(rng: random.Random) -> Fields:
    return {"spec": {**_make_replicated_spec(rng), **_choose(rng, {"minReadySeconds": 5})}}


def make_job(rng: random.Random) -> Fields:
    template = {"spec": {**make_pod_spec(rng), "restartPolicy": rng.choice(("Never", "OnFailure"))}}
    options: Fields = {
        "parallelism": 2,
        "completions": 3,
        "backoffLimit": 1,
        "activeDeadlineSeconds": 100,
        "ttlSecondsAfterFinished": 10,
        "suspend": True,
        "completionMode": "NonIndexed",
    }
    return {"spec": {"template": template, **_choose(rng, options)}}


def make_resource_quota(rng: random.Random) -> Fields:
    hard = rng.choice(({"pods": "5"}, {"requests.cpu": "1", "limits.memory": "1.5Gi"}, {"count/secrets": 3}))
    return {"spec": {"hard": hard, **rng.choice(({}, {"scopes": ["BestEffort"]} if "pods" in hard else {}))}}


def make_limit_range(rng: random.Random) -> Fields:
    limits: list[Fields] = [
        {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "Container", "max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}},
        {"type": "Pod", "max": {"cpu": "2"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
    ]
    return {"spec": {"limits": rng.sample(limits, rng.randrange(1, 3))}}


def _make_replicated_spec(rng: random.Random) -> Fields:
    template = {"metadata": {"labels": _LABELS}, "spec": {**make_pod_spec(rng), "restartPolicy": "Always"}}
    template["spec"].pop("activeDeadlineSeconds", None)
    return {"replicas": rng.randrange(3), "selector": {"matchLabels": _LABELS}, "template": template}


def _choose(rng: random.Random, options: Fields) -> Fields:
    return {name: options[name] for name in rng.sample(sorted(options), rng.choice((0, 0, 1, min(2, len(options)))))}
