"""The plans of a job: what its master or somebody else asked of its members, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from pliant.cli.durations import age_text
from pliant.cli.jobs import Found
from pliant.engine.wording import listing
from pliant.errors import Forbidden, NotFound
from pliant.kube.client import KubeClient
from pliant.kube.resources import Resource
from pliant.model.plans import Plan, PodRequest

MOST = 6
"""Plans that are told of, the newest first."""
TITLES = ("WHEN", "PLAN", "BY", "PHASE", "ASKS FOR", "WHY")


async def plans_for(client: KubeClient, one: Found) -> list[Plan]:
    """Every plan for a job that one may see, the oldest first."""
    kind = one.frontend.plans
    if kind is None:
        return []
    resource = Resource(kind.group, kind.version, kind.plural, kind.kind)
    try:
        listed = await client.list(resource, one.key.namespace)
    except (Forbidden, NotFound):
        return []
    plans = [kind.parse(raw) for raw in listed.items if kind.owner(raw) == one.key.name]
    return sorted(plans, key=lambda plan: (plan.created_at, plan.key.name))


def plan_rows(plans: Sequence[Plan], now: datetime) -> list[list[str]]:
    """A line for each of the latest, the newest first."""
    return [
        [
            f"{age_text(now - plan.created_at)} ago",
            plan.key.name,
            "hand" if plan.is_manual else "master",
            str(plan.phase or "new"),
            asks_text(plan) or "nothing",
            plan.said or plan.reason or plan.problem or "–",
        ]
        for plan in list(reversed(plans))[:MOST]
    ]


def asks_text(plan: Plan) -> str:
    """What a plan wants, in a few words: `worker 4`, `new worker rank 1`, `without mnist-edljob-worker-3`."""
    return ", ".join(_wishes(plan))


def _wishes(plan: Plan) -> Iterator[str]:
    for name, wanted in plan.groups.items():
        size = "" if wanted.size is None else f" {wanted.size}"
        yield f"{name}{size}{_amounts(wanted.resource)}"
    yield from (f"new {text}" for text in _alike(plan.create))
    if plan.remove:
        yield f"without {listing([pod.name or _named(pod) for pod in plan.remove])}"
    yield from (f"another pod for {text}" for text in _alike(plan.migrate))


def _alike(pods: Sequence[PodRequest]) -> Iterator[str]:
    """Pods that differ in nothing but their ranks share a few words."""
    kinds: dict[tuple[str, str], list[PodRequest]] = {}
    for pod in pods:
        kinds.setdefault((pod.group, _amounts(pod.resource)), []).append(pod)
    for (group, amounts), some in kinds.items():
        ranks = [str(pod.rank) for pod in some if pod.rank is not None]
        if len(ranks) > 1 and len(ranks) == len(some):
            yield f"{group} ranks {listing(ranks)}{amounts}"
        else:
            yield listing([pod.name or _named(pod) for pod in some]) + amounts


def _named(pod: PodRequest) -> str:
    return pod.group if pod.rank is None else f"{pod.group} rank {pod.rank}"


def _amounts(resource: Mapping[str, str]) -> str:
    told = ", ".join(f"{name} {amount}" for name, amount in resource.items())
    return f" ({told})" if told else ""
