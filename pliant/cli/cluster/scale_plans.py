"""Lists the scale plans of a job and formats what they request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.durations import format_age
from pliant.errors import Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.english import summarize_names
from pliant.model.scale_plans import PlanPodRequest, ScalePlan

MAX_SHOWN_PLANS = 6
PLAN_COLUMNS = ("AGE", "PLAN", "SOURCE", "PHASE", "REQUEST", "MESSAGE")


async def list_plans(client: KubeClient, job_object: JobObject) -> list[ScalePlan]:
    """Return the plans of a job that the user may list, the oldest first."""
    kind = job_object.frontend.plan_frontend
    if kind is None:
        return []
    resource = Resource(kind.group, kind.version, kind.plural, kind.kind)
    try:
        listed = await client.list(resource, job_object.key.namespace)
    except (Forbidden, NotFound):
        return []
    plans = [kind.parse(raw) for raw in listed.items if kind.owner_job_name(raw) == job_object.key.name]
    return sorted(plans, key=lambda plan: (plan.created_at, plan.key.name))


def plan_rows(plans: Sequence[ScalePlan], now: datetime) -> list[list[str]]:
    """Return a table row for each of the latest plans, the newest first."""
    return [
        [
            format_age(now - plan.created_at),
            plan.key.name,
            "manual" if plan.is_manual else "master",
            str(plan.phase or "new"),
            plan_request_text(plan) or "–",
            plan.status_message or plan.reason or plan.parse_error or "–",
        ]
        for plan in list(reversed(plans))[:MAX_SHOWN_PLANS]
    ]


def plan_request_text(plan: ScalePlan) -> str:
    """Summarize what a plan requests: `worker 4`, `add worker rank 1`, `remove mnist-edljob-worker-3`."""
    return ", ".join(_request_texts(plan))


def _request_texts(plan: ScalePlan) -> Iterator[str]:
    for name, request in plan.group_requests.items():
        size = "" if request.size is None else f" {request.size}"
        yield f"{name}{size}{_resources_text(request.resources)}"
    yield from (f"add {text}" for text in _similar_pods_texts(plan.create_pods))
    if plan.remove_pods:
        yield f"remove {summarize_names([pod.name or _pod_request_name(pod) for pod in plan.remove_pods])}"
    yield from (f"migrate {text}" for text in _similar_pods_texts(plan.migrate_pods))


def _similar_pods_texts(pods: Sequence[PlanPodRequest]) -> Iterator[str]:
    """Summarize pods that differ only in their ranks together."""
    pods_by_kind: dict[tuple[str, str], list[PlanPodRequest]] = {}
    for pod in pods:
        pods_by_kind.setdefault((pod.group, _resources_text(pod.resources)), []).append(pod)
    for (group, amounts), similar in pods_by_kind.items():
        ranks = [str(pod.rank) for pod in similar if pod.rank is not None]
        if len(ranks) > 1 and len(ranks) == len(similar):
            yield f"{group} ranks {summarize_names(ranks)}{amounts}"
        else:
            yield summarize_names([pod.name or _pod_request_name(pod) for pod in similar]) + amounts


def _pod_request_name(pod: PlanPodRequest) -> str:
    return pod.group if pod.rank is None else f"{pod.group} rank {pod.rank}"


def _resources_text(resource: Mapping[str, str]) -> str:
    amounts = ", ".join(f"{name} {amount}" for name, amount in resource.items())
    return f" ({amounts})" if amounts else ""
