"""The plans of a job: what its master or somebody else asked of its members, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from pliant.cli.cluster.job_lookup import JobObject
from pliant.cli.durations import format_age
from pliant.engine.status.messages import join_names
from pliant.errors import Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.scale_plans import PodRequest, ScalePlan

MAX_PLANS = 6
"""Plans that are told of, the newest first."""
PLAN_COLUMNS = ("WHEN", "PLAN", "BY", "PHASE", "ASKS FOR", "WHY")


async def list_plans(client: KubeClient, job_object: JobObject) -> list[ScalePlan]:
    """Every plan for a job that one may see, the oldest first."""
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
    """A line for each of the latest, the newest first."""
    return [
        [
            f"{format_age(now - plan.created_at)} ago",
            plan.key.name,
            "hand" if plan.is_manual else "master",
            str(plan.phase or "new"),
            plan_request_text(plan) or "nothing",
            plan.status_message or plan.reason or plan.parse_error or "–",
        ]
        for plan in list(reversed(plans))[:MAX_PLANS]
    ]


def plan_request_text(plan: ScalePlan) -> str:
    """What a plan wants, in a few words: `worker 4`, `new worker rank 1`, `without mnist-edljob-worker-3`."""
    return ", ".join(_request_texts(plan))


def _request_texts(plan: ScalePlan) -> Iterator[str]:
    for name, wanted in plan.group_requests.items():
        size = "" if wanted.size is None else f" {wanted.size}"
        yield f"{name}{size}{_resources_text(wanted.resources)}"
    yield from (f"new {text}" for text in _similar_pods_texts(plan.create_pods))
    if plan.remove_pods:
        yield f"without {join_names([pod.name or _pod_request_name(pod) for pod in plan.remove_pods])}"
    yield from (f"another pod for {text}" for text in _similar_pods_texts(plan.migrate_pods))


def _similar_pods_texts(pods: Sequence[PodRequest]) -> Iterator[str]:
    """Pods that differ in nothing but their ranks share a few words."""
    kinds: dict[tuple[str, str], list[PodRequest]] = {}
    for pod in pods:
        kinds.setdefault((pod.group, _resources_text(pod.resources)), []).append(pod)
    for (group, amounts), some in kinds.items():
        ranks = [str(pod.rank) for pod in some if pod.rank is not None]
        if len(ranks) > 1 and len(ranks) == len(some):
            yield f"{group} ranks {join_names(ranks)}{amounts}"
        else:
            yield join_names([pod.name or _pod_request_name(pod) for pod in some]) + amounts


def _pod_request_name(pod: PodRequest) -> str:
    return pod.group if pod.rank is None else f"{pod.group} rank {pod.rank}"


def _resources_text(resource: Mapping[str, str]) -> str:
    told = ", ".join(f"{name} {amount}" for name, amount in resource.items())
    return f" ({told})" if told else ""
