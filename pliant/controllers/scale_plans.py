"""The scale plans of the jobs of one kind: cached, parsed, and their statuses written."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from pliant.errors import Conflict, NotFound
from pliant.frontends.frontend import PlanFrontend
from pliant.frontends.status.engine_state import raw_status
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.codec import build_merge_patch
from pliant.kube.resources import Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.actions import DeleteScalePlan
from pliant.model.job import Job, JobKey
from pliant.model.scale_plans import PlanPhase, PlanStatus, ScalePlan
from pliant.runtime.clock import Clock, JumpAwareClock

JOB_INDEX = "job"  # the index of plans by job
MANUAL_PLAN_INITIAL_DELAY = timedelta(seconds=2)
"""How long a user's plan is left alone when a master other than Pliant's may claim it.

Such a master writes back the whole object as it first read it: an earlier write of the operator would conflict.
"""

RawPlan = Mapping[str, Any]


def plan_resource(plan_frontend: PlanFrontend) -> Resource:
    return Resource(plan_frontend.group, plan_frontend.version, plan_frontend.plural, plan_frontend.kind)


def job_key_of_plan(plan_frontend: PlanFrontend, raw: RawPlan) -> JobKey:
    """Return the job that a plan is for; the name is empty if the plan has none."""
    return JobKey(raw["metadata"]["namespace"], plan_frontend.owner_job_name(raw))


class ScalePlanStore:
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
        self._clock = JumpAwareClock(clock)
        self._plans = plans
        self._parsed_by_uid: dict[str, tuple[RawPlan, ScalePlan]] = {}
        """Parsed plans by uid, each with the object it was parsed from."""

    def forget_parsed_plan(self, raw: RawPlan) -> None:
        self._parsed_by_uid.pop(raw["metadata"]["uid"], None)

    def plans_for(self, job: Job) -> tuple[tuple[ScalePlan, ...], timedelta | None]:
        """Return the plans for a job, the oldest first, and the delay until the plans left alone are due."""
        now, plans, waits = self._clock.now(), [], []
        for raw in self._plans_of_job(job.key):
            plan = self._in_present_time(self._parsed_plan(raw))
            if _belongs_to_other_job(plan, job.owner.uid):
                continue
            remaining = plan.created_at + MANUAL_PLAN_INITIAL_DELAY - now
            if (
                self._is_claimable_by_master(job, plan)
                and not plan.is_claimed
                and plan.phase is None
                and remaining > timedelta(0)
            ):
                waits.append(remaining)
            else:
                plans.append(plan)
        return tuple(sorted(plans, key=_creation_order)), min(waits, default=None)

    async def write_statuses(self, job: Job, statuses: Mapping[str, PlanStatus]) -> None:
        """Write plan statuses, provided that the plans have not changed since they were read."""
        if not statuses:
            return
        raw_by_name = {raw["metadata"]["name"]: raw for raw in self._plans_of_job(job.key)}
        writes = (
            self._write_decided_status(job, raw_by_name[name], status)
            for name, status in statuses.items()
            if name in raw_by_name
        )
        await _gather_writes(writes)

    async def delete(self, key: JobKey, action: DeleteScalePlan) -> None:
        client = self._client.for_flow(WriteFlow(*key))
        with suppress(NotFound, Conflict):
            await client.delete(self.resource, key.namespace, action.name, uid=action.uid)
        self._plans.apply_own_deletion(key.namespace, action.name, action.uid)

    async def clean_up_orphan_plans(self, key: JobKey, live_uid: str) -> None:
        """Handle plans whose job does not exist: unfinished ones that no job has had wait for a job of this name."""
        if not self._list_orphans(key, live_uid):
            return
        # The cached job may be older than its plans.
        orphans = self._list_orphans(key, await self._live_job_uid(key))
        await _gather_writes(self._resolve_orphan_plan(key, raw, plan) for raw, plan in orphans)

    def _list_orphans(self, key: JobKey, job_uid: str) -> list[tuple[RawPlan, ScalePlan]]:
        """Return the plans of another job or of none; there is nothing to do for finished plans of users."""
        parsed = [(raw, self._parsed_plan(raw)) for raw in self._plans_of_job(key)]
        return [
            (raw, plan)
            for raw, plan in parsed
            if _belongs_to_other_job(plan, job_uid) and not (plan.is_manual and plan.is_finished)
        ]

    async def _resolve_orphan_plan(self, key: JobKey, raw: RawPlan, plan: ScalePlan) -> None:
        kind = self._job_resource.kind
        if not key.name:
            problem = f"{self.kind.owner_field}: must be the name of the {kind} that the plan is for"
            await self._write_if_changed(raw, plan, PlanPhase.FAILED, problem)
        elif not plan.is_manual and (plan.job_uids or plan.is_finished):
            await self.delete(key, DeleteScalePlan(name=plan.key.name, uid=plan.uid))
        elif plan.job_uids:
            problem = f"{kind} {key.name} was deleted before the plan was completed; create another plan"
            await self._write_if_changed(raw, plan, PlanPhase.FAILED, problem)
        else:
            problem = f"{kind} {key.name} not found in this namespace"
            await self._write_if_changed(raw, plan, PlanPhase.PENDING, problem)

    async def acknowledge_ignored_edits(self, key: JobKey) -> list[ScalePlan]:
        """Return the plans that were edited after their execution began, each edit once."""
        parsed = [(raw, self._parsed_plan(raw)) for raw in self._plans_of_job(key)]
        edited = [(raw, plan) for raw, plan in parsed if plan.has_ignored_edit]
        await _gather_writes(self._patch_status(raw, {"observedGeneration": plan.generation}) for raw, plan in edited)
        return [plan for _, plan in edited]

    async def _live_job_uid(self, key: JobKey) -> str:
        with suppress(NotFound):
            return str((await self._client.get(self._job_resource, *key))["metadata"]["uid"]) if key.name else ""
        return ""

    async def _write_if_changed(self, raw: RawPlan, plan: ScalePlan, phase: PlanPhase, message: str) -> None:
        if not plan.is_finished and (plan.phase, plan.status_message) != (phase, message):
            now, generation = self._clock.now(), plan.generation
            await self._write_status(
                raw, PlanStatus(phase=phase, message=message, at=now, observed_generation=generation)
            )

    async def _write_decided_status(self, job: Job, raw: RawPlan, status: PlanStatus) -> None:
        plan = self._parsed_plan(raw)
        if (status.phase.is_final or plan.is_claimed) and self._is_claimable_by_master(job, plan):
            raw = await self._remove_claim_label(raw)
        await self._write_status(raw, dataclasses.replace(status, job_uid=job.owner.uid))

    async def _remove_claim_label(self, raw: RawPlan) -> RawPlan:
        """Remove the label by which a master finds a plan, so that it does not execute the plan again."""
        meta = raw["metadata"]
        if self.kind.claim_label not in (meta.get("labels") or {}):
            return raw
        change = {"resourceVersion": meta["resourceVersion"], "labels": {self.kind.claim_label: None}}
        written = await self._client_for(raw).patch(
            self.resource, meta["namespace"], meta["name"], {"metadata": change}, decode_as=dict
        )
        self._plans.apply_own_write(written)
        return written

    async def _write_status(self, raw: RawPlan, status: PlanStatus) -> None:
        before = raw_status(raw)
        if change := build_merge_patch(before, self.kind.render_status(status, before)):
            await self._patch_status(raw, change)

    async def _patch_status(self, raw: RawPlan, change: Mapping[str, Any]) -> None:
        meta = raw["metadata"]
        patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": change}
        where = self.resource, meta["namespace"], meta["name"]
        try:
            written = await self._client_for(raw).patch(*where, patch, subresource="status", decode_as=dict)
            self._plans.apply_own_write(written)
        except NotFound:
            self._plans.apply_own_deletion(meta["namespace"], meta["name"], meta["uid"])

    def _client_for(self, raw: RawPlan) -> KubeClient:
        return self._client.for_flow(WriteFlow(*job_key_of_plan(self.kind, raw)))

    def _is_claimable_by_master(self, job: Job, plan: ScalePlan) -> bool:
        has_claiming_master = job.master is not None and job.master.claims_manual_plans
        return bool(self.kind.claim_label) and plan.is_manual and has_claiming_master

    def _parsed_plan(self, raw: RawPlan) -> ScalePlan:
        """Return the parsed plan; each version of the object is parsed once."""
        uid = raw["metadata"]["uid"]
        known = self._parsed_by_uid.get(uid)
        if known is None or known[0] is not raw:
            known = self._parsed_by_uid[uid] = raw, self.kind.parse(raw)
        return known[1]

    def _in_present_time(self, plan: ScalePlan) -> ScalePlan:
        """Return the plan with the times from which its deadlines are counted moved by the jumps of the clock."""
        if not self._clock.has_jumped:
            return plan
        finished_at = self._clock.to_present(plan.finished_at) if plan.finished_at is not None else None
        return dataclasses.replace(plan, created_at=self._clock.to_present(plan.created_at), finished_at=finished_at)

    def _plans_of_job(self, key: JobKey) -> tuple[dict[str, Any], ...]:
        return self._plans.by_index(JOB_INDEX, str(key))


def _belongs_to_other_job(plan: ScalePlan, job_uid: str) -> bool:
    """Return whether a plan belongs to no job or to an earlier job of the same name."""
    return not job_uid or (bool(plan.job_uids) and job_uid not in plan.job_uids)


async def _gather_writes(writes: Iterable[Any]) -> None:
    results: Sequence[BaseException | None] = await asyncio.gather(*writes, return_exceptions=True)
    for error in filter(None, results):
        raise error


def _creation_order(plan: ScalePlan) -> tuple[datetime, list[tuple[int, str]]]:
    """Return a sort key: by creation time, then by name in natural order (9 before 10)."""
    parts = re.split(r"(\d+)", plan.key.name)
    return plan.created_at, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
