"""The PodDisruptionBudget that holds `kubectl drain` until the replicas of a node have saved their state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pliant.engine.context import Context
from pliant.engine.departures import can_acknowledge, is_open
from pliant.engine.pods.replicas import Replica
from pliant.model.actions import AllowEviction, CreateDisruptionBudget
from pliant.model.job import Job
from pliant.model.labels import EVICTION_BLOCKED, EVICTION_LABEL, job_labels, job_selector, owner_references


def create_disruption_budget(job: Job) -> CreateDisruptionBudget:
    """Return the creation of the budget, which may exist already. It allows no eviction of the pods that it selects."""
    manifest: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": job.key.name,
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": owner_references(job.owner),
        },
        "spec": {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {**job_selector(job), EVICTION_LABEL: EVICTION_BLOCKED}},
            # A pod that is not ready has nothing to save.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
    return CreateDisruptionBudget(name=job.key.name, manifest=manifest)


def allow_evictions(context: Context, replicas: tuple[Replica, ...]) -> Iterator[AllowEviction]:
    """Yield the replicas of draining nodes that may be evicted: they have saved their state, or cannot.

    Nobody asks the replicas of a job that has ended.
    """
    for pod in (replica.pod for replica in replicas if replica.pod is not None):
        if not (pod.is_eviction_blocked and pod.is_node_draining) or pod.is_terminating:
            continue
        departure = context.state.departures.get(pod.uid)
        is_asked = departure is None or is_open(departure, context.now)
        may_save = is_asked and can_acknowledge(pod) and not context.state.phase.is_final
        if not may_save:
            yield AllowEviction(name=pod.name, uid=pod.uid)
