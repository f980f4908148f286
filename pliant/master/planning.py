"""Steps as ScalePlans: what the operator is asked for, and what became of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pliant.kube.resources import Resource
from pliant.master.model import MIB, JobFacts, NewPod, NodeKey, Resources, Step
from pliant.master.watching import JOB, PORTS, USUAL_PORT

ELASTIC_JOBS: Final = Resource("elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob")
SCALE_PLANS: Final = Resource("elastic.iml.github.io", "v1alpha1", "scaleplans", "ScalePlan")
STAGE: Final = "pliant/stage"
FINAL: Final = ("Succeeded", "Failed")


def plan_of(job: JobFacts, step: Step, name: str) -> dict[str, Any]:
    """The ScalePlan that asks for a step."""
    spec: dict[str, Any] = {"ownerJob": job.name, "reason": step.reason}
    if step.replicas:
        spec["replicaResourceSpecs"] = {
            type_: {"replicas": wanted.replicas, "resource": amounts(wanted.resources)}
            for type_, wanted in step.replicas.items()
        }
    if step.create:
        spec["createPods"] = [_pod(job, pod) for pod in step.create]
    if step.migrate:
        spec["migratePods"] = [_pod(job, pod) for pod in step.migrate]
    if step.remove:
        spec["removePods"] = [_named(job, key) for key in step.remove]
    if step.ps_hosts:
        spec["psHosts"] = list(step.ps_hosts)
    return {
        "apiVersion": SCALE_PLANS.api_version,
        "kind": SCALE_PLANS.kind,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {"scale-type": "auto", JOB: job.name},
            "annotations": {STAGE: str(step.stage)},
            "ownerReferences": [{**owner_of(job), "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def owner_of(job: JobFacts) -> dict[str, Any]:
    """The reference by which whatever the master makes goes with its job."""
    return {
        "apiVersion": ELASTIC_JOBS.api_version,
        "kind": ELASTIC_JOBS.kind,
        "name": job.name,
        "uid": job.uid,
    }


def next_number(job: str, names: Iterable[str], at_least: int) -> int:
    """A number that no plan of the job has had."""
    shape = re.compile(re.escape(job) + r"-scaleplan-([0-9]{1,9})")
    found = [int(match[1]) + 1 for name in names if (match := shape.fullmatch(name))]
    return max([at_least, *found])


def phase_of(plan: Mapping[str, Any]) -> str:
    """How far a plan has come."""
    return str((plan.get("status") or {}).get("phase") or "")


def message_of(plan: Mapping[str, Any]) -> str:
    """What the operator says about it."""
    return str((plan.get("status") or {}).get("message") or "")


def is_open(plan: Mapping[str, Any]) -> bool:
    """Whether there is still something to come of a plan that would be in the way of another.

    While a successor starts, others can be asked for; the one it takes over from leaves when it runs.
    """
    phase = phase_of(plan)
    return phase not in FINAL and not (phase == "Scaling" and (plan.get("spec") or {}).get("migratePods"))


def is_shown(step: Step, members: Mapping[str, int]) -> bool:
    """Whether everybody a plan asked for was seen; members are the newest ids by place."""
    if any(members.get(f"{pod.key.type}/{pod.rank}", -1) < pod.key.id for pod in step.create):
        return False
    types = [place.rpartition("/")[0] for place in members]
    return all(types.count(type_) >= wanted.replicas for type_, wanted in step.replicas.items())


def amounts(resources: Resources) -> dict[str, str]:
    """What a pod asks for, in the words of Kubernetes."""
    told = dict(resources.others)
    if resources.cpu is not None:
        told["cpu"] = f"{round(resources.cpu * 1000)}m"
    if resources.memory is not None:
        whole = resources.memory % MIB == 0
        told["memory"] = f"{resources.memory // MIB}Mi" if whole else str(resources.memory)
    return told


def _pod(job: JobFacts, pod: NewPod) -> dict[str, Any]:
    port = PORTS.get(pod.key.type, USUAL_PORT)
    return {
        **_named(job, pod.key),
        "rankIndex": pod.rank,
        "service": f"{job.name}-edljob-{pod.key.type}-{pod.rank}:{port}",
        "resource": amounts(pod.resources),
    }


def _named(job: JobFacts, key: NodeKey) -> dict[str, Any]:
    return {"name": f"{job.name}-edljob-{key}", "id": key.id, "type": key.type}
