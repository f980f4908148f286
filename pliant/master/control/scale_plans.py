"""Builds ScalePlans and reads their progress."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pliant.kube.resources import Resource
from pliant.master.control.parsing import DEFAULT_MEMBER_PORT, JOB_LABEL, MEMBER_PORT_BY_TYPE
from pliant.master.model import MIB, MasterJobSpec, MemberKey, MemberPodRequest, PodResources, ScaleAction

ELASTIC_JOBS: Final = Resource("elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob")
SCALE_PLANS: Final = Resource("elastic.iml.github.io", "v1alpha1", "scaleplans", "ScalePlan")
STAGE_ANNOTATION: Final = "pliant/sizing-stage"
FINAL_PLAN_PHASES: Final = ("Succeeded", "Failed")


def build_scale_plan(job: MasterJobSpec, action: ScaleAction, plan_name: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"ownerJob": job.name, "reason": action.reason}
    if action.sizing_by_type:
        spec["replicaResourceSpecs"] = {
            type_: {"replicas": sizing.replicas, "resource": to_quantities(sizing.resources)}
            for type_, sizing in action.sizing_by_type.items()
        }
    if action.create_pods:
        spec["createPods"] = [_plan_pod_entry(job, pod) for pod in action.create_pods]
    if action.migrate_pods:
        spec["migratePods"] = [_plan_pod_entry(job, pod) for pod in action.migrate_pods]
    if action.remove_members:
        spec["removePods"] = [_plan_pod_reference(job, key) for key in action.remove_members]
    if action.ps_hosts:
        spec["psHosts"] = list(action.ps_hosts)
    return {
        "apiVersion": SCALE_PLANS.api_version,
        "kind": SCALE_PLANS.kind,
        "metadata": {
            "name": plan_name,
            "namespace": job.namespace,
            "labels": {"scale-type": "auto", JOB_LABEL: job.name},
            "annotations": {STAGE_ANNOTATION: str(action.stage)},
            "ownerReferences": [{**elastic_job_owner_reference(job), "blockOwnerDeletion": True}],
        },
        "spec": spec,
    }


def elastic_job_owner_reference(job: MasterJobSpec) -> dict[str, Any]:
    return {"apiVersion": ELASTIC_JOBS.api_version, "kind": ELASTIC_JOBS.kind, "name": job.name, "uid": job.uid}


def next_plan_number(job_name: str, plan_names: Iterable[str], minimum: int) -> int:
    """Return a number, at least `minimum`, that no plan of the job has used."""
    pattern = re.compile(re.escape(job_name) + r"-scaleplan-([0-9]{1,9})")
    numbers = [int(match[1]) + 1 for name in plan_names if (match := pattern.fullmatch(name))]
    return max([minimum, *numbers])


def plan_phase(plan: Mapping[str, Any]) -> str:
    return str((plan.get("status") or {}).get("phase") or "")


def plan_message(plan: Mapping[str, Any]) -> str:
    return str((plan.get("status") or {}).get("message") or "")


def blocks_next_plan(plan: Mapping[str, Any], newest_ids: Mapping[str, int]) -> bool:
    """Return whether the next plan must wait for this one.

    A plan in execution does not block while replacements start, or while removed pods terminate: both take time.
    """
    phase, spec = plan_phase(plan), plan.get("spec") or {}
    if phase != "Scaling":
        return phase not in FINAL_PLAN_PHASES
    return not spec.get("migratePods") and not have_requested_members_appeared(spec, newest_ids)


def have_requested_members_appeared(plan_spec: Mapping[str, Any], newest_ids: Mapping[str, int]) -> bool:
    """Return whether all members requested by a plan have been observed; `newest_ids` is keyed by slot."""
    pods, sizes = plan_spec.get("createPods") or (), plan_spec.get("replicaResourceSpecs") or {}
    slots = {f"{pod.get('type')}/{pod.get('rankIndex')}": pod.get("id") or 0 for pod in pods}
    if any(newest_ids.get(slot, -1) < newest_id for slot, newest_id in slots.items()):
        return False
    types = [slot.rpartition("/")[0] for slot in newest_ids]
    return all(types.count(type_) >= (each.get("replicas") or 0) for type_, each in sizes.items())


def to_quantities(resources: PodResources) -> dict[str, str]:
    quantities = dict(resources.extended_resources)
    if resources.cpu is not None:
        quantities["cpu"] = f"{round(resources.cpu * 1000)}m"
    if resources.memory is not None:
        is_whole = resources.memory % MIB == 0
        quantities["memory"] = f"{resources.memory // MIB}Mi" if is_whole else str(resources.memory)
    return quantities


def _plan_pod_entry(job: MasterJobSpec, pod_request: MemberPodRequest) -> dict[str, Any]:
    member_type, rank = pod_request.key.type, pod_request.rank
    port = MEMBER_PORT_BY_TYPE.get(member_type, DEFAULT_MEMBER_PORT)
    # Workers are reached through the service of the job; the operator decides which of them needs its own.
    service = {} if member_type == "worker" else {"service": f"{job.name}-edljob-{member_type}-{rank}:{port}"}
    return {
        **_plan_pod_reference(job, pod_request.key),
        "rankIndex": rank,
        **service,
        "resource": to_quantities(pod_request.resources),
    }


def _plan_pod_reference(job: MasterJobSpec, key: MemberKey) -> dict[str, Any]:
    return {"name": f"{job.name}-edljob-{key}", "id": key.id, "type": key.type}
