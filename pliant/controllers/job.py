"""Read, decide, apply: the reconciliation of one job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from pliant.controllers.apply import Applier
from pliant.controllers.masters import OWNER, Masters
from pliant.controllers.nodes import NodeWatch
from pliant.controllers.observe import Members, observe
from pliant.controllers.orphans import Orphans
from pliant.controllers.reports import ReportDesk, kept
from pliant.controllers.wishes import Wishes
from pliant.engine.decide import decide, soonest
from pliant.errors import InvalidSpec, NotYet
from pliant.frameworks.joined import Joined
from pliant.frontends.base import Frontend
from pliant.frontends.memory import BLOB, status_in
from pliant.kube.client import KubeClient
from pliant.kube.merge import merge_patch
from pliant.kube.objects import Pod, Service
from pliant.kube.resources import Resource
from pliant.kube.store import ObjectStore
from pliant.model.actions import EmitEvent, JobStatus
from pliant.model.framework import Framework
from pliant.model.job import Job, JobKey, Owner
from pliant.model.labels import MANAGER
from pliant.model.plans import Plan
from pliant.model.rules import Rules
from pliant.plugins.known import contract_of
from pliant.runtime.clock import Clock

T = TypeVar("T", bound=Pod | Service)


def resource_of(frontend: Frontend) -> Resource:
    """Where the API serves the objects of a front end's kind."""
    return Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What all kinds of job share: the members that exist, and the one that creates and deletes them."""

    pods: ObjectStore[Pod]
    services: ObjectStore[Service]
    applier: Applier
    nodes: NodeWatch
    rules: Rules
    reports: ReportDesk | None = None
    """Where members report, if anybody listens."""
    wishes: Wishes = field(default_factory=Wishes)
    """What the autoscaler wants."""


class JobReconciler:
    """Brings the jobs of one kind one step further at a time."""

    def __init__(
        self,
        frontend: Frontend,
        client: KubeClient,
        clock: Clock,
        jobs: ObjectStore[dict[str, Any]],
        cluster: Cluster,
        masters: Masters | None = None,
    ) -> None:
        self.resource = resource_of(frontend)
        self._masters = masters
        self._frontend = frontend
        self._client = client
        self._clock = clock
        self._jobs = jobs
        self._cluster = cluster
        self._refusals: dict[JobKey, dict[str, str]] = {}
        stores = (cluster.pods, masters.pods) if masters else (cluster.pods,)
        self._orphans = [Orphans(client, clock, self.resource, pods) for pods in stores]

    async def reconcile(self, key: JobKey) -> timedelta | None:
        """Look at one job and do what is next; returns when to look again."""
        raw = self._jobs.get(key.namespace, key.name)
        uid = raw["metadata"]["uid"] if raw else ""
        left_over = await self._clear(key, uid)
        if raw is None:
            self._refusals.pop(key, None)
            self._forget(key)
            return left_over
        try:
            return soonest(left_over, await self._advance(self._frontend.parse(raw), raw))
        except InvalidSpec as problem:
            self._forget(key)  # it would not heed a wish, and others would wait for room that it never gives
            await self._reject(key, raw, problem)
            return None

    async def _clear(self, key: JobKey, uid: str) -> timedelta | None:
        """Clear away what belongs to jobs of that name that are gone; says when to look again."""
        nodes, rules = self._cluster.nodes, self._cluster.rules
        if self._masters is not None:
            await self._masters.desk.clear(key, uid)
        return soonest(*[await orphans.clear(key, uid, nodes, rules) for orphans in self._orphans])

    async def _advance(self, job: Job, raw: Mapping[str, Any]) -> timedelta | None:
        """Decide about a job that can be understood, and act; returns when to look again."""
        if job.managed_by not in ("", MANAGER):
            self._forget(job.key)
            return None
        cluster = self._cluster
        if cluster.wishes.listener is not None:
            cluster.wishes.listener.note(job, kept(status_in(raw)).get("progress", {}))
        members, wait = self._members(job)
        seen = observe(job, members, cluster.nodes, cluster.rules)
        decision = decide(job, seen, self._contract(job), self._clock.now())

        if decision.intent is not None:
            await self._tell(job, raw, decision.intent)
            await self._cluster.applier.apply(job, decision.actions)
            return None  # the write itself calls for the next pass
        refusals = await self._cluster.applier.apply(job, decision.actions)
        if self._masters is not None:
            await self._masters.desk.tell(job, decision.plans)
        for status in decision.statuses.values() or self._overdue(job, raw):
            await self._tell(job, raw, status)
        # The message told of what was refused before; when that is over, nothing else may call for another pass.
        return timedelta(0) if self._note_refusals(job, refusals) else soonest(decision.look_again, wait)

    def _members(self, job: Job) -> tuple[Members, timedelta | None]:
        """What the caches hold of a job, and when to look at what is left alone till then."""
        cluster, uid = self._cluster, job.owner.uid
        foreign: tuple[Pod, ...] = ()
        plans: tuple[Plan, ...] = ()
        wait = None
        if self._masters is not None:
            foreign = _at_home(job, self._masters.pods.by_index(OWNER, uid))
            plans, wait = self._masters.desk.plans_for(job)
        members = Members(
            pods=_at_home(job, cluster.pods.by_index(OWNER, uid)),
            services=_at_home(job, cluster.services.by_index(OWNER, uid)),
            refusals=self._refusals.get(job.key, {}),
            wishes=cluster.wishes.of(uid),
            foreign=foreign,
            plans=plans,
        )
        return members, wait

    def _forget(self, key: JobKey) -> None:
        """Leave a job that is gone, somebody else's or beyond understanding out of all plans."""
        if (listener := self._cluster.wishes.listener) is not None:
            listener.forget(f"{self.resource.kind}.{self.resource.group}", key)

    def _contract(self, job: Job) -> Framework:
        """What members are given: all that their frameworks need, and where to report, if anybody listens."""
        reports = self._cluster.reports
        return contract_of(job) if reports is None else Joined((contract_of(job), reports.contract))

    async def _tell(self, job: Job, raw: Mapping[str, Any], status: JobStatus) -> None:
        """Put a status into the kind's own words and store it."""
        before = status_in(raw)
        news = self._cluster.reports.reported(job) if self._cluster.reports else {}
        words = self._frontend.status(status, before, job)
        await self._write(job.key, raw, {**words, **kept(before), **news})

    def _overdue(self, job: Job, raw: Mapping[str, Any]) -> tuple[JobStatus, ...]:
        """The unchanged status of a job that was rejected and has been mended since: the complaint must go."""
        if job.state is None or not self._frontend.is_rejected(status_in(raw)):
            return ()
        return (JobStatus(state=job.state, counts=job.state.counts),)

    def _note_refusals(self, job: Job, refusals: dict[str, str]) -> bool:
        """Remember what could not be created, so that the next pass can tell the user, and try again later.

        Without refusals it says whether there were some before.
        """
        before = self._refusals.pop(job.key, {})
        if not refusals:
            return bool(before)
        self._refusals[job.key] = refusals
        name, why = next(iter(refusals.items()))
        if refusals != before:
            event = EmitEvent(reason="CannotCreate", message=f"{name}: {why}", is_warning=True)
            self._cluster.applier.events.tell(job.owner, job.key.namespace, event)
        raise NotYet(f"cannot create {name}: {why}")

    async def _write(self, key: JobKey, raw: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Store a status, provided the object is still the one that was decided upon."""
        change = merge_patch(status_in(raw), status)
        if not change:
            return
        patch = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "status": change}
        written = await self._client.patch(self.resource, key.namespace, key.name, patch, subresource="status")
        self._jobs.note_written(written)
        if status.get(BLOB) and not status_in(written).get(BLOB):
            self._miss_memory(key, raw)

    def _miss_memory(self, key: JobKey, raw: Mapping[str, Any]) -> None:
        """Say that nothing can be remembered of a job: what comes next would be decided again and again."""
        said = (
            f"this cluster's definition of {self.resource.kind} drops status.{BLOB}, by which jobs are remembered"
        )
        cure = f"install ours: pliant crds --kinds {self.resource.full_name} | kubectl apply -f -"
        self._warn(key, raw, "CannotRemember", f"{said}; {cure}")
        raise NotYet(f"{said}; {cure}")

    async def _reject(self, key: JobKey, raw: Mapping[str, Any], problem: InvalidSpec) -> None:
        """Tell the author of a job that cannot be understood what to mend; nothing else happens to it."""
        await self._write(key, raw, self._frontend.rejection(problem, status_in(raw), self._clock.now()))
        self._warn(key, raw, "InvalidSpec", str(problem))

    def _warn(self, key: JobKey, raw: Mapping[str, Any], reason: str, message: str) -> None:
        """Tell of something that is wrong with an object."""
        resource, uid = self.resource, raw["metadata"]["uid"]
        owner = Owner(api_version=resource.api_version, kind=resource.kind, name=key.name, uid=uid)
        event = EmitEvent(reason=reason, message=message, is_warning=True)
        self._cluster.applier.events.tell(owner, key.namespace, event)


def _at_home(job: Job, found: tuple[T, ...]) -> tuple[T, ...]:
    """Those in the job's own namespace: whoever is elsewhere may name any owner."""
    return tuple(each for each in found if each.metadata.namespace == job.key.namespace)
