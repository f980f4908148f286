"""Random valid Jobs."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.objects.pods import make_overhead, make_pod_spec

Fields = dict[str, Any]
_LABELS = {"app": "web"}


def make_job(rng: random.Random) -> Fields:
    """Return a job of one of both completion modes, whose policies fit its mode."""
    template: Fields = {
        "spec": {**make_pod_spec(rng), **make_overhead(rng), "restartPolicy": rng.choice(("Never", "OnFailure"))}
    }
    spec: Fields = {"template": template}
    if rng.random() < 0.3:
        spec |= _make_indexed_options(rng)
    if rng.random() < 0.2:
        spec["podFailurePolicy"] = _make_failure_policy(rng, "backoffLimitPerIndex" in spec)
        template["spec"]["restartPolicy"] = "Never"
    if rng.random() < 0.1:
        template["metadata"] = {"labels": _LABELS}
        spec |= {"manualSelector": True, "selector": {"matchLabels": _LABELS}}
    options: Fields = {
        "parallelism": rng.choice((0, 2, 3)),
        "completions": 3,
        "backoffLimit": 1,
        "activeDeadlineSeconds": 100,
        "ttlSecondsAfterFinished": 10,
        "suspend": rng.choice((True, False)),
        "completionMode": spec.get("completionMode", "NonIndexed"),
        "podReplacementPolicy": "Failed",
        "managedBy": rng.choice(("kubernetes.io/job-controller", "example.org/mine")),
        "manualSelector": False,
    }
    for name in rng.sample(sorted(options), rng.choice((0, 1, 1, 2, 3))):
        spec.setdefault(name, options[name])
    return {"spec": spec}


def _make_indexed_options(rng: random.Random) -> Fields:
    spec: Fields = {"completionMode": "Indexed", "completions": 3, "parallelism": rng.choice((1, 3))}
    if rng.random() < 0.5:
        spec["backoffLimitPerIndex"] = 1
        if rng.random() < 0.5:
            spec["maxFailedIndexes"] = 2
    if rng.random() < 0.4:
        rules: tuple[Fields, ...] = (
            {"succeededIndexes": "0,2"},
            {"succeededCount": 2},
            {"succeededIndexes": "0-1", "succeededCount": 1},
        )
        spec["successPolicy"] = {"rules": rng.sample(rules, rng.randrange(1, 3))}
    return spec


def _make_failure_policy(rng: random.Random, has_limit_per_index: bool) -> Fields:
    rules: list[Fields] = [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [0, 7], "containerName": "main"}},
    ]
    if has_limit_per_index:
        rules.append({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}})
    return {"rules": rng.sample(rules, rng.randrange(1, 3))}
