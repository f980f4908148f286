"""Random statuses of pods and workloads, most of them valid."""

from __future__ import annotations

import random
from typing import Any

Fields = dict[str, Any]
_TIME = "2030-01-01T00:00:00Z"


def make_pod_status(rng: random.Random) -> Fields:
    options: Fields = {
        "phase": rng.choice(("Running", "Succeeded", "Failed", "Pending")),
        "podIPs": [{"ip": "10.1.1.1"}],
        "podIP": "10.1.1.1",
        "hostIPs": [{"ip": "10.2.1.1"}],
        "hostIP": "10.2.1.1",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _TIME}],
        "message": "m",
        "reason": "r",
        "startTime": _TIME,
        "nominatedNodeName": "n2",
        "observedGeneration": 1,
        "containerStatuses": [_make_container_status(rng, "main")],
        "initContainerStatuses": [_make_container_status(rng, "init")],
        "qosClass": "BestEffort",
    }
    return {name: options[name] for name in rng.sample(sorted(options), rng.randrange(1, 5))}


def _make_container_status(rng: random.Random, name: str) -> Fields:
    terminated: Fields = {"exitCode": rng.choice((0, 1)), "startedAt": _TIME, "finishedAt": _TIME, "reason": "x"}
    states: tuple[Fields, ...] = (
        {"waiting": {"reason": "ContainerCreating"}},
        {"running": {"startedAt": _TIME}},
        {"terminated": terminated},
        {},
    )
    required: Fields = {"name": name, "image": "i", "imageID": "d", "ready": True, "restartCount": rng.randrange(2)}
    options: Fields = {
        "state": rng.choice(states),
        "lastState": rng.choice(states),
        "started": True,
        "containerID": "c://1",
        "resources": {"limits": {"cpu": "1"}},
        "allocatedResources": {"cpu": "1"},
        "user": {"linux": {"uid": 1, "gid": 1}},
    }
    return {**required, **{field: options[field] for field in rng.sample(sorted(options), rng.randrange(1, 4))}}


def make_replicas_status(rng: random.Random) -> Fields:
    options: Fields = {
        "replicas": rng.randrange(4),
        "readyReplicas": rng.randrange(3),
        "availableReplicas": rng.randrange(3),
        "observedGeneration": rng.randrange(1, 3),
        "terminatingReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": _TIME, "reason": "r"}],
    }
    return {name: options[name] for name in rng.sample(sorted(options), rng.randrange(1, 5))}


def make_deployment_status(rng: random.Random) -> Fields:
    extra = rng.choice(({}, {"updatedReplicas": 1}, {"unavailableReplicas": 2}, {"collisionCount": 1}))
    return {**make_replicas_status(rng), **extra}


def make_replica_set_status(rng: random.Random) -> Fields:
    return {"replicas": 2, **make_replicas_status(rng), **rng.choice(({}, {"fullyLabeledReplicas": 1}))}


def make_job_status(rng: random.Random) -> Fields:
    conditions = [
        {"type": name, "status": "True", "lastTransitionTime": _TIME}
        for name in rng.choice(
            (
                ("Suspended",),
                ("FailureTarget",),
                ("FailureTarget", "Failed"),
                ("SuccessCriteriaMet",),
                ("SuccessCriteriaMet", "Complete"),
                ("Complete",),
            )
        )
    ]
    options: Fields = {
        "active": rng.randrange(3),
        "ready": rng.randrange(2),
        "succeeded": rng.randrange(3),
        "failed": rng.randrange(2),
        "terminating": rng.randrange(2),
        "startTime": _TIME,
        "completionTime": rng.choice((_TIME, "2031-01-01T00:00:00Z")),
        "completedIndexes": rng.choice(("0", "0,1", "0-2", "1-", "x")),
        "failedIndexes": rng.choice(("", "0", "1")),
        "uncountedTerminatedPods": rng.choice(({}, {"succeeded": ["u"]}, {"failed": ["u", "v"]})),
        "conditions": conditions,
    }
    return {name: options[name] for name in rng.sample(sorted(options), rng.randrange(1, 6))}
