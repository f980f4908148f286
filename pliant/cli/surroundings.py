"""All that can be known about one job: its pods, their nodes, and what was told about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pliant.cli.jobs import Found
from pliant.cli.members import is_pod_of, members_of, selector_of
from pliant.cli.planned import plans_for
from pliant.controllers.nodes import ills_of
from pliant.controllers.observe import observe
from pliant.embedded.views import PodView
from pliant.engine.roster import Place, call_the_roll
from pliant.engine.sizing import sized
from pliant.errors import Forbidden
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model.job import Job
from pliant.model.observed import ObservedPod
from pliant.model.plans import Plan
from pliant.model.state import EngineState, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event: something that somebody told about a job or one of its pods."""

    at: datetime | None
    is_warning: bool
    reason: str
    about: str
    """`AITrainingJob bert`, `Pod bert-worker-0`."""
    message: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the cluster holds about one job."""

    pods: Sequence[Pod] = ()
    nodes: Mapping[str, Node] = field(default_factory=dict)
    events: Sequence[Told] = ()
    """The latest last."""
    tenants: Sequence[PodView] = ()
    """All pods of the cluster, if one of the job's waits for room and they may be seen."""
    plans: Sequence[Plan] = ()
    """What its master, or somebody by hand, asked of its members; the latest last."""

    def observed(self, job: Job) -> tuple[ObservedPod, ...]:
        """Its pods, the way decisions see them."""
        return observe(job, members_of(job, self.pods)).pods

    def places(self, job: Job, now: datetime) -> tuple[Place, ...]:
        """Every place of the job, and who is there."""
        state = job.state or EngineState(phase=Phase.PENDING, started_at=job.created_at)
        seen = observe(job, members_of(job, self.pods))
        return call_the_roll(sized(job, state), seen, state, now).places

    def faults(self, names: Sequence[str]) -> dict[str, str]:
        """What is wrong with these nodes, as far as nodes may be seen."""
        if not self.nodes:
            return {}
        found = {name: self._fault(name) for name in names}
        return {name: what for name, what in found.items() if what}

    def _fault(self, name: str) -> str:
        node = self.nodes.get(name)
        if node is None:
            return "is gone"
        return ", ".join(ill.what for ill in ills_of(node))


async def surroundings_of(client: KubeClient, one: Found) -> Surroundings:
    """What there is to see; what one may not see is left out."""
    pods = await pods_of(client, one)
    return Surroundings(
        pods=pods,
        nodes=await _nodes(client),
        events=await events_of(client, one),
        tenants=await _tenants(client) if any(map(_waits_for_room, pods)) else (),
        plans=await plans_for(client, one),
    )


def _waits_for_room(pod: Pod) -> bool:
    return any(each.type == "PodScheduled" and each.status == "False" for each in pod.status.conditions)


async def _tenants(client: KubeClient) -> Sequence[PodView]:
    try:
        return (await client.list(PODS, into=PodView)).items
    except Forbidden:
        return ()


async def pods_of(client: KubeClient, one: Found) -> list[Pod]:
    """The pods of a job, by name."""
    listing = await client.list(PODS, one.key.namespace, labels=selector_of(one), into=Pod)
    mine = [pod for pod in listing.items if any(each.uid == one.uid for each in pod.metadata.owner_references)]
    return sorted(mine, key=lambda pod: natural(pod.metadata.name))


def natural(name: str) -> list[int | str]:
    """A key by which `worker-10` comes after `worker-9`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


async def _nodes(client: KubeClient) -> dict[str, Node]:
    try:
        listing = await client.list(NODES, into=Node)
    except Forbidden:
        return {}
    return {node.metadata.name: node for node in listing.items}


async def events_of(client: KubeClient, one: Found) -> list[Told]:
    """What was told about a job and its pods, also those that are gone; the latest last."""
    listing = await client.list(EVENTS, one.key.namespace)
    mine = [_told(raw) for raw in listing.items if is_about(raw, one)]
    return sorted(mine, key=lambda told: told.at.timestamp() if told.at else 0.0)


def is_about(raw: Mapping[str, Any], one: Found) -> bool:
    """Whether an event tells of a job or one of its members."""
    about = raw.get("involvedObject") or {}
    kind, name = about.get("kind"), str(about.get("name", ""))
    if kind == one.frontend.kind and name == one.key.name:
        return str(about.get("uid", one.uid)) == one.uid  # a namesake of old is somebody else
    if kind != "Pod" or one.job is None:
        return False
    at = _moment(raw)
    return is_pod_of(one.job, name) and (at is None or one.created_at is None or at >= one.created_at)


def _told(raw: Mapping[str, Any]) -> Told:
    about = raw.get("involvedObject") or {}
    return Told(
        at=_moment(raw),
        is_warning=raw.get("type") == "Warning",
        reason=str(raw.get("reason") or ""),
        about=f"{about.get('kind', '')} {about.get('name', '')}",
        message=" ".join(str(raw.get("message") or "").split()),
        count=int((raw.get("series") or {}).get("count") or raw.get("count") or 1),
    )


def _moment(raw: Mapping[str, Any]) -> datetime | None:
    series = raw.get("series") or {}
    times = (series.get("lastObservedTime"), raw.get("lastTimestamp"), raw.get("eventTime"))
    text = next((str(each) for each in times if each), raw.get("metadata", {}).get("creationTimestamp"))
    return datetime.fromisoformat(str(text).replace("Z", "+00:00")) if text else None
