"""Plans beside the jobs of one kind: what is known of them, and what they are told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from pliant.engine.plans.membership import PLIANT_MASTER_OPTION
from pliant.errors import Conflict, NotFound
from pliant.frontends.frontend import PlanFrontend
from pliant.frontends.status.engine_state import raw_status
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.codec import build_merge_patch
from pliant.kube.resources import Resource
from pliant.model.actions import DeleteScalePlan
from pliant.model.job import Job, JobKey
from pliant.model.scale_plans import PlanPhase, PlanStatus, ScalePlan
from pliant.runtime.clock import Clock

JOB_INDEX = "job"
"""The index of plans by the job they are for."""
MASTER_CLAIM_GRACE = timedelta(seconds=2)
"""How long a plan of people is left alone where a master other than ours may put its mark on it.

It writes the whole object as it read it first: a write of ours before that would make it wait.
"""

RawPlan = Mapping[str, Any]


def plan_resource(kind: PlanFrontend) -> Resource:
    """Where the API serves plans of a kind."""
    return Resource(kind.group, kind.version, kind.plural, kind.kind)


def job_key_of_plan(kind: PlanFrontend, raw: RawPlan) -> JobKey:
    """The job that a plan is for; its name is empty if the plan does not say."""
    return JobKey(raw["metadata"]["namespace"], kind.owner_job_name(raw))


class ScalePlanStore:
    """Hands out the plans of jobs of one kind, and takes what there is to tell about them."""

    def __init__(
        self,
        kind: PlanFrontend,
        job_resource: Resource,
        client: KubeClient,
        clock: Clock,
        plans: ObjectStore[dict[str, Any]],
    ) -> None:
        self.kind = kind
        self.resource = plan_resource(kind)
        self._job_resource = job_resource
        self._client = client
        self._clock = clock
        self._plans = plans
        self._parsed_by_uid: dict[str, tuple[RawPlan, ScalePlan]] = {}
        """Plans by uid, each with what it was read from."""

    def forget(self, raw: RawPlan) -> None:
        """Take in that a plan is gone."""
        self._parsed_by_uid.pop(raw["metadata"]["uid"], None)

    def plans_for(self, job: Job) -> tuple[tuple[ScalePlan, ...], timedelta | None]:
        """Every plan for a job, the oldest first; and when to look at those left alone."""
        now, shown, waits = self._clock.now(), [], []
        for raw in self._plans_of_job(job.key):
            plan = self._parsed_plan(raw)
            if _belongs_to_other_job(raw, plan, job.owner.uid):
                continue
            left = plan.created_at + MASTER_CLAIM_GRACE - now
            if (
                self._is_claimable_by_master(job, plan)
                and not plan.is_claimed
                and plan.phase is None
                and left > timedelta(0)
            ):
                waits.append(left)
            else:
                shown.append(plan)
        return tuple(sorted(shown, key=_creation_order)), min(waits, default=None)

    async def write_statuses(self, job: Job, statuses: Mapping[str, PlanStatus]) -> None:
        """Write the statuses of plans, each provided that it is still the one that was decided upon."""
        if not statuses:
            return
        raws = {raw["metadata"]["name"]: raw for raw in self._plans_of_job(job.key)}
        writes = (
            self._write_decided_status(job, raws[name], status) for name, status in statuses.items() if name in raws
        )
        await _gather_writes(writes)

    async def delete(self, namespace: str, action: DeleteScalePlan) -> None:
        """Take away exactly this plan."""
        with suppress(NotFound, Conflict):
            await self._client.delete(self.resource, namespace, action.name, uid=action.uid)
        self._plans.note_deleted(namespace, action.name, action.uid)

    async def delete_orphan_plans(self, key: JobKey, live_uid: str) -> None:
        """See to the plans of jobs that are not there: masters' go, people are told."""
        if not any(_belongs_to_other_job(raw, self._parsed_plan(raw), live_uid) for raw in self._plans_of_job(key)):
            return
        # What is cached of the job may be behind its plans.
        present = await self._live_job_uid(key)
        strays = [raw for raw in self._plans_of_job(key) if _belongs_to_other_job(raw, self._parsed_plan(raw), present)]
        await _gather_writes(self._resolve_orphan_plan(key, raw, self._parsed_plan(raw)) for raw in strays)

    async def _resolve_orphan_plan(self, key: JobKey, raw: RawPlan, plan: ScalePlan) -> None:
        now = self._clock.now()
        if not key.name:
            problem = f"{self.kind.owner_field}: must be the name of the {self._job_resource.kind} that the plan is for"
            await self._write_if_changed(raw, plan, PlanStatus(phase=PlanPhase.FAILED, message=problem, at=now))
        elif plan.is_manual:
            said = f"there is no {self._job_resource.kind} {key.name} in this namespace"
            await self._write_if_changed(raw, plan, PlanStatus(phase=PlanPhase.PENDING, message=said, at=now))
        else:
            await self.delete(key.namespace, DeleteScalePlan(name=plan.key.name, uid=plan.uid))

    async def _live_job_uid(self, key: JobKey) -> str:
        """Which job of that name the server has; empty if it has none."""
        with suppress(NotFound):
            return str((await self._client.get(self._job_resource, *key))["metadata"]["uid"]) if key.name else ""
        return ""

    async def _write_if_changed(self, raw: RawPlan, plan: ScalePlan, status: PlanStatus) -> None:
        """Tell what is so without anybody's decision; once is enough."""
        if (plan.phase, plan.status_message) != (status.phase, status.message) and not (
            plan.phase and plan.phase.is_final
        ):
            await self._patch_status(raw, status)

    async def _write_decided_status(self, job: Job, raw: RawPlan, status: PlanStatus) -> None:
        if status.phase.is_final and self._is_claimable_by_master(job, self._parsed_plan(raw)):
            raw = await self._remove_claim_label(raw)
        await self._patch_status(raw, status)

    async def _remove_claim_label(self, raw: RawPlan) -> RawPlan:
        """Take the label away by which a master would find a plan that is done with, and do it all again."""
        meta = raw["metadata"]
        if self.kind.claim_label not in (meta.get("labels") or {}):
            return raw
        change = {"resourceVersion": meta["resourceVersion"], "labels": {self.kind.claim_label: None}}
        written = await self._client.patch(
            self.resource, meta["namespace"], meta["name"], {"metadata": change}, decode_as=dict
        )
        self._plans.note_written(written)
        return written

    async def _patch_status(self, raw: RawPlan, status: PlanStatus) -> None:
        meta, before = raw["metadata"], raw_status(raw)
        change = build_merge_patch(before, self.kind.render_status(status, before))
        if not change:
            return
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": change}
        where = self.resource, meta["namespace"], meta["name"]
        try:
            self._plans.note_written(await self._client.patch(*where, patch, subresource="status", decode_as=dict))
        except NotFound:
            self._plans.note_deleted(meta["namespace"], meta["name"], meta["uid"])

    def _is_claimable_by_master(self, job: Job, plan: ScalePlan) -> bool:
        return bool(self.kind.claim_label) and plan.is_manual and not job.framework_options.get(PLIANT_MASTER_OPTION)

    def _parsed_plan(self, raw: RawPlan) -> ScalePlan:
        """A plan as it stands: each is read once, however many passes look at it."""
        uid = raw["metadata"]["uid"]
        known = self._parsed_by_uid.get(uid)
        if known is None or known[0] is not raw:
            known = self._parsed_by_uid[uid] = raw, self.kind.parse(raw)
        return known[1]

    def _plans_of_job(self, key: JobKey) -> tuple[dict[str, Any], ...]:
        return self._plans.by_index(JOB_INDEX, str(key))


def _belongs_to_other_job(raw: RawPlan, plan: ScalePlan, job_uid: str) -> bool:
    """Whether a plan is not for the job of this uid: of a master, it belongs to one of the same name before it."""
    if plan.is_manual or not job_uid:
        return not job_uid
    owners = {ref.get("uid") for ref in raw["metadata"].get("ownerReferences") or ()} - {None, ""}
    return bool(owners) and job_uid not in owners


async def _gather_writes(writes: Iterable[Any]) -> None:
    """Wait for writes side by side; the first failure is raised when all are done."""
    ends: Sequence[BaseException | None] = await asyncio.gather(*writes, return_exceptions=True)
    for end in ends:
        if end is not None:
            raise end


def _creation_order(plan: ScalePlan) -> tuple[datetime, list[tuple[int, str]]]:
    """Older plans first; of one second by name, in which numbers count as such: 9 comes before 10."""
    parts = re.split(r"(\d+)", plan.key.name)
    return plan.created_at, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
