"""Jobs for the tests of the Python API."""

from __future__ import annotations

from typing import Any

TRAINING = "echo pliant: step=5 total=10 loss=0.5; echo worker $TRAININGJOB_REPLICA_INDEX"
STEADY = "echo started; exec sleep 1000"
DOOMED = "echo no data; exit 3"


def make_job(name: str, command: str, **worker: Any) -> dict[str, Any]:
    """Return a job with a group of workers that run a command of the shell."""
    container = {"name": "main", "image": "any", "command": ["sh", "-c", command]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name},
        "spec": {"cleanPodPolicy": "None", "replicaSpecs": {"worker": {"replicas": 1, "template": template, **worker}}},
    }
