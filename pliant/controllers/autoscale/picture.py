"""A cluster as policies see it, kept from one change to the next: only what changed is drawn anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pliant.autoscale.model import Amounts, Claim, Cluster, Elastic, GroupKey, Node, Shape
from pliant.controllers.autoscale.ledger import Ledger, Seat
from pliant.controllers.autoscale.register import Register, bounds, key_of, may_move
from pliant.controllers.autoscale.shapes import Needs, Shapes, is_open, room_of
from pliant.controllers.autoscale.views import AnyPod, Quota
from pliant.kube import objects
from pliant.kube.amounts import amount
from pliant.kube.placing import spec_in
from pliant.kube.store import ObjectStore
from pliant.model.job import Group, Job, Resize
from pliant.model.labels import member_group
from pliant.model.state import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A group as it is drawn, and what pacing has to know of it."""

    uid: str
    """Of its job."""
    elastic: Elastic
    is_up: bool
    """Whether every member runs."""
    is_ending: bool
    """Whether one has ended its work: it is drawn as pods like any other."""
    starts_anew: bool
    """Whether a resize starts all members again."""
    members: tuple[str, ...] = ()
    """Its pods, by uid."""
    leavers: tuple[str, ...] = ()
    """Pods beyond its size: they are about to be told to go, if they have not been."""
    known_at: datetime | None = None
    """Until when the story of its job was known."""


@dataclass(frozen=True, slots=True)
class Terms:
    """When a cluster is drawn, and how full it may become."""

    now: datetime
    load: float


class Picture:
    """Draws clusters from what is known of nodes, pods, quotas and jobs."""

    def __init__(
        self,
        nodes: ObjectStore[objects.Node],
        quotas: ObjectStore[Quota],
        ledger: Ledger,
        shapes: Shapes,
        register: Register,
    ) -> None:
        self._nodes = nodes
        self._quotas = quotas
        self._ledger = ledger
        self._shapes = shapes
        self._register = register
        self._drawn: dict[str, tuple[Drawn, ...]] = {}
        self._stale: set[str] = set()
        self._rooms: dict[str, tuple[objects.Node, dict[str, int]]] = {}

    def touch(self, uids: Iterable[str]) -> None:
        """Draw these jobs anew the next time."""
        self._stale.update(uids)

    def touch_nodes(self) -> None:
        """Draw everything anew, as nodes have come, gone or been marked: they take others now."""
        self._shapes.forget_nodes()
        self._stale.update(job.owner.uid for job in self._register)

    def groups(self) -> list[Drawn]:
        """Every group that may be set, up to date."""
        for uid in self._stale:
            job = self._register.get(uid)
            if job is None:
                self._drawn.pop(uid, None)
            else:
                self._drawn[uid] = tuple(self._draw(job))
        self._stale.clear()
        return [each for drawn in self._drawn.values() for each in drawn]

    def cluster(self, drawn: Mapping[GroupKey, Drawn], paced: Mapping[GroupKey, Elastic], terms: Terms) -> Cluster:
        """The cluster with these groups as the ones that may be set, as far as each may be now."""
        moving = [each for each in drawn.values() if not each.is_ending]
        elastics = tuple(paced[each.elastic.key] for each in moving)
        claims = tuple(self._claims({each.uid for each in moving}))
        spared = {uid for each in moving for uid in each.members}
        if self._ledger.waiting:
            # Who is leaving makes room for those who wait: nobody else has to go on their account.
            spared.update(pod.metadata.uid for pod in self._ledger.lingering(terms.now))
            spared.update(uid for each in moving for uid in each.leavers)
        seats = self._ledger.seats
        taken = _without(self._ledger.used, (seats[uid] for uid in spared if uid in seats))
        nodes = tuple(self._node(node, taken) for node in self._nodes.all())
        limits = self._limits(moving)
        return Cluster(nodes=nodes, elastics=elastics, claims=claims, quotas=limits, load=terms.load)

    def _draw(self, job: Job) -> Iterable[Drawn]:
        for group in job.groups:
            memory = job.state.group(group.name) if job.state else GroupState()
            if may_move(group) and memory.size:
                found = self._drawn_group(job, group, memory)
                if found is not None:
                    yield found

    def _drawn_group(self, job: Job, group: Group, memory: GroupState) -> Drawn | None:
        size, label = memory.size or 0, member_group(group.name)
        members = self._ledger.members(job.owner.uid)
        pods = [members.get((label, index)) for index in range(size)]
        there = [pod for pod in pods if pod is not None]
        shape = self._shape(group, there)
        if shape is None:
            return None
        least, most = bounds(group)
        elastic = Elastic(
            key=key_of(job, group),
            least=least,
            most=most,
            size=size,
            shape=shape,
            places=_places(pods),
            priority=there[0].spec.priority if there else 0,
            since=job.created_at.timestamp(),
            speeds=tuple(sorted(memory.speeds.items())),
        )
        return Drawn(
            uid=job.owner.uid,
            elastic=elastic,
            is_up=all(pod is not None and pod.status.phase == "Running" and not pod.is_leaving for pod in pods),
            is_ending=bool(memory.finished),
            starts_anew=group.resize is Resize.RESTART,
            members=tuple(pod.metadata.uid for pod in there),
            leavers=tuple(
                pod.metadata.uid
                for (name, index), pod in members.items()
                if name == label and index >= size and not pod.is_leaving
            ),
            known_at=job.state.written_at if job.state else None,
        )

    def _shape(self, group: Group, there: list[AnyPod]) -> Shape | None:
        """The shape of its members: of those that are there, as what they were given on the way counts."""
        try:
            return self._shapes.of(there[0].spec if there else spec_in(group.template))
        except (ValueError, msgspec.ValidationError):
            return None  # no pod will ever be made of that

    def _claims(self, drawn: set[str]) -> Iterable[Claim]:
        """Everybody who waits and is no member of a group that is drawn, alike ones together."""
        together: dict[tuple[str, Shape, int], list[AnyPod]] = {}
        for pod in self._ledger.waiting.values():
            owner = pod.owner
            if owner is not None and owner.uid in drawn and self._is_drawn(owner.uid, pod):
                continue
            if owner is not None and self._register.is_fresh(owner.uid):
                continue  # which of them it could do without is known in a moment
            shape = self._shapes.of(pod.spec)
            if pod.needs_more_than_room or shape.allowed == frozenset() or not _asks(shape.needs):
                continue
            name = f"{pod.metadata.namespace}/{owner.name if owner else pod.metadata.name}"
            together.setdefault((name, shape, pod.spec.priority), []).append(pod)
        for (name, shape, priority), pods in together.items():
            yield Claim(key=name, shape=shape, number=len(pods), priority=priority, since=min(map(_made, pods)))

    def _is_drawn(self, uid: str, pod: AnyPod) -> bool:
        groups = (each.elastic for each in self._drawn.get(uid, ()) if not each.is_ending)
        return any(member_group(each.key.group) == pod.metadata.labels.group for each in groups)

    def _node(self, node: objects.Node, taken: Mapping[str, Amounts]) -> Node:
        name = node.metadata.name
        known = self._rooms.get(name)
        if known is None or known[0].status.allocatable != node.status.allocatable:
            known = self._rooms[name] = node, room_of(node.status.allocatable)
        return Node(name=name, room=known[1], taken=taken.get(name, {}), is_open=is_open(node))

    def _limits(self, drawn: Iterable[Drawn]) -> dict[str, Amounts]:
        """What the members of elastic groups may take up in each namespace with a quota."""
        namespaces = {each.elastic.key.namespace for each in drawn}
        limits: dict[str, dict[str, int]] = {}
        for quota in self._quotas.all():
            namespace = quota.metadata.namespace
            if namespace in namespaces and not quota.spec.scopes and not quota.spec.scope_selector:
                _tighten(limits.setdefault(namespace, {}), _hard(quota))
        for namespace, limit in limits.items():
            others = dict(self._ledger.asked.get(namespace, {}))
            for each in drawn:
                if each.elastic.key.namespace == namespace:
                    for name, number in self._asked_by(each):
                        others[name] = others.get(name, 0) - number
            for name in limit:
                limit[name] = max(limit[name] - others.get(name, 0), 0)
        return {namespace: limit for namespace, limit in limits.items() if limit}

    def _asked_by(self, drawn: Drawn) -> Iterable[tuple[str, int]]:
        """What the pods of a group ask for, whether or not they have a node."""
        label, members = member_group(drawn.elastic.key.group), self._ledger.members(drawn.uid)
        for (group, index), pod in members.items():
            if group == label and index < drawn.elastic.size and not pod.is_finished:
                yield from self._shapes.needs(pod.spec)


def _places(pods: list[AnyPod | None]) -> tuple[str, ...]:
    """The node of each member; one that is about to come back has its old one."""
    places = ["" if pod is None else pod.spec.node_name for pod in pods]
    while places and pods[len(places) - 1] is None:
        places.pop()
    return tuple(places)


def _without(used: Mapping[str, Amounts], seats: Iterable[Seat]) -> Mapping[str, Amounts]:
    """What is taken of nodes beside what sits there on these seats."""
    taken: dict[str, dict[str, int]] = {}
    for node, needs in seats:
        sums = taken.get(node)
        if sums is None:
            sums = taken[node] = dict(used.get(node, {}))
        for name, number in needs:
            sums[name] = sums.get(name, 0) - number
    return {**used, **taken}


def _asks(needs: Needs) -> bool:
    return any(name != "pods" for name, _ in needs)


def _made(pod: AnyPod) -> float:
    at = pod.metadata.creation_timestamp
    return at.timestamp() if at else 0.0


def _hard(quota: Quota) -> dict[str, int]:
    """A quota's limits by the names that pods ask by; those on other things than requests are not looked at."""
    asked = {
        name.removeprefix("requests.").removeprefix("count/"): value
        for name, value in quota.spec.hard.items()
        if name.startswith("requests.") or name in ("cpu", "memory", "ephemeral-storage", "pods", "count/pods")
    }
    return {name: int(amount(value) * (1000 if name == "cpu" else 1)) for name, value in asked.items()}


def _tighten(limit: dict[str, int], by: Mapping[str, int]) -> None:
    for name, value in by.items():
        limit[name] = min(limit.get(name, value), value)
