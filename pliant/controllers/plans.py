"""Plans beside the jobs of one kind: what is known of them, and what they are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from pliant.engine.members import OWN_MASTER
from pliant.errors import Conflict, NotFound
from pliant.frontends.base import PlanKind
from pliant.frontends.memory import status_in
from pliant.kube.client import KubeClient
from pliant.kube.merge import merge_patch
from pliant.kube.resources import Resource
from pliant.kube.store import ObjectStore
from pliant.model.actions import DeletePlan
from pliant.model.job import Job, JobKey
from pliant.model.plans import Plan, PlanPhase, PlanStatus
from pliant.runtime.clock import Clock

JOB = "job"
"""The index of plans by the job they are for."""
UNTOUCHED = timedelta(seconds=2)
"""How long a plan of people is left alone where a master other than ours may put its mark on it.

It writes the whole object as it read it first: a write of ours before that would make it wait.
"""

Raw = Mapping[str, Any]


def plan_resource(kind: PlanKind) -> Resource:
    """Where the API serves plans of a kind."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


def plan_key(kind: PlanKind, raw: Raw) -> JobKey:
    """The job that a plan is for; its name is empty if the plan does not say."""
    return JobKey(raw["metadata"]["namespace"], kind.owner(raw))


class PlanDesk:
    """Hands out the plans of jobs of one kind, and takes what there is to tell about them."""

    def __init__(
        self,
        kind: PlanKind,
        jobs: Resource,
        client: KubeClient,
        clock: Clock,
        plans: ObjectStore[dict[str, Any]],
    ) -> None:
        self.kind = kind
        self.resource = plan_resource(kind)
        self._jobs = jobs
        self._client = client
        self._clock = clock
        self._plans = plans
        self._read: dict[str, tuple[Raw, Plan]] = {}
        """Plans by uid, each with what it was read from."""

    def forget(self, raw: Raw) -> None:
        """Take in that a plan is gone."""
        self._read.pop(raw["metadata"]["uid"], None)

    def plans_for(self, job: Job) -> tuple[tuple[Plan, ...], timedelta | None]:
        """Every plan for a job, the oldest first; and when to look at those left alone."""
        now, shown, waits = self._clock.now(), [], []
        for raw in self._named(job.key):
            plan = self._plan(raw)
            if _is_of_another(raw, plan, job.owner.uid):
                continue
            left = plan.created_at + UNTOUCHED - now
            if self._is_bait(job, plan) and not plan.is_taken and plan.phase is None and left > timedelta(0):
                waits.append(left)
            else:
                shown.append(plan)
        return tuple(sorted(shown, key=_age)), min(waits, default=None)

    async def tell(self, job: Job, news: Mapping[str, PlanStatus]) -> None:
        """Write the statuses of plans, each provided that it is still the one that was decided upon."""
        if not news:
            return
        raws = {raw["metadata"]["name"]: raw for raw in self._named(job.key)}
        writes = (self._tell_of(job, raws[name], status) for name, status in news.items() if name in raws)
        await _all_done(writes)

    async def delete(self, namespace: str, action: DeletePlan) -> None:
        """Take away exactly this plan."""
        with suppress(NotFound, Conflict):
            await self._client.delete(self.resource, namespace, action.name, uid=action.uid)
        self._plans.note_deleted(namespace, action.name, action.uid)

    async def clear(self, key: JobKey, living: str) -> None:
        """See to the plans of jobs that are not there: masters' go, people are told."""
        if not any(_is_of_another(raw, self._plan(raw), living) for raw in self._named(key)):
            return
        # What is cached of the job may be behind its plans.
        present = await self._uid(key)
        strays = [raw for raw in self._named(key) if _is_of_another(raw, self._plan(raw), present)]
        await _all_done(self._settle(key, raw, self._plan(raw)) for raw in strays)

    async def _settle(self, key: JobKey, raw: Raw, plan: Plan) -> None:
        now = self._clock.now()
        if not key.name:
            problem = f"{self.kind.owner_field}: must be the name of the {self._jobs.kind} that the plan is for"
            await self._say(raw, plan, PlanStatus(phase=PlanPhase.FAILED, message=problem, at=now))
        elif plan.is_manual:
            said = f"there is no {self._jobs.kind} {key.name} in this namespace"
            await self._say(raw, plan, PlanStatus(phase=PlanPhase.PENDING, message=said, at=now))
        else:
            await self.delete(key.namespace, DeletePlan(name=plan.key.name, uid=plan.uid))

    async def _uid(self, key: JobKey) -> str:
        """Which job of that name the server has; empty if it has none."""
        with suppress(NotFound):
            return str((await self._client.get(self._jobs, *key))["metadata"]["uid"]) if key.name else ""
        return ""

    async def _say(self, raw: Raw, plan: Plan, status: PlanStatus) -> None:
        """Tell what is so without anybody's decision; once is enough."""
        if (plan.phase, plan.said) != (status.phase, status.message) and not (plan.phase and plan.phase.is_final):
            await self._write(raw, status)

    async def _tell_of(self, job: Job, raw: Raw, status: PlanStatus) -> None:
        if status.phase.is_final and self._is_bait(job, self._plan(raw)):
            raw = await self._without_bait(raw)
        await self._write(raw, status)

    async def _without_bait(self, raw: Raw) -> Raw:
        """Take the label away by which a master would find a plan that is done with, and do it all again."""
        meta = raw["metadata"]
        if self.kind.bait not in (meta.get("labels") or {}):
            return raw
        change = {"resourceVersion": meta["resourceVersion"], "labels": {self.kind.bait: None}}
        written = await self._client.patch(
            self.resource, meta["namespace"], meta["name"], {"metadata": change}, into=dict
        )
        self._plans.note_written(written)
        return written

    async def _write(self, raw: Raw, status: PlanStatus) -> None:
        meta, before = raw["metadata"], status_in(raw)
        change = merge_patch(before, self.kind.status(status, before))
        if not change:
            return
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": change}
        where = self.resource, meta["namespace"], meta["name"]
        try:
            self._plans.note_written(await self._client.patch(*where, patch, subresource="status", into=dict))
        except NotFound:
            self._plans.note_deleted(meta["namespace"], meta["name"], meta["uid"])

    def _is_bait(self, job: Job, plan: Plan) -> bool:
        return bool(self.kind.bait) and plan.is_manual and not job.options.get(OWN_MASTER)

    def _plan(self, raw: Raw) -> Plan:
        """A plan as it stands: each is read once, however many passes look at it."""
        uid = raw["metadata"]["uid"]
        known = self._read.get(uid)
        if known is None or known[0] is not raw:
            known = self._read[uid] = raw, self.kind.parse(raw)
        return known[1]

    def _named(self, key: JobKey) -> tuple[dict[str, Any], ...]:
        return self._plans.by_index(JOB, str(key))


def _is_of_another(raw: Raw, plan: Plan, uid: str) -> bool:
    """Whether a plan is not for the job of this uid: of a master, it belongs to one of the same name before it."""
    if plan.is_manual or not uid:
        return not uid
    owners = {ref.get("uid") for ref in raw["metadata"].get("ownerReferences") or ()} - {None, ""}
    return bool(owners) and uid not in owners


async def _all_done(writes: Iterable[Any]) -> None:
    """Wait for writes side by side; the first failure is raised when all are done."""
    ends: Sequence[BaseException | None] = await asyncio.gather(*writes, return_exceptions=True)
    for end in ends:
        if end is not None:
            raise end


def _age(plan: Plan) -> tuple[datetime, list[tuple[int, str]]]:
    """Older plans first; of one second by name, in which numbers count as such: 9 comes before 10."""
    parts = re.split(r"(\d+)", plan.key.name)
    return plan.created_at, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
