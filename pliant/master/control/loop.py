"""The control loop of the master: observes pods and plans, decides, and creates one ScalePlan at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pliant.errors import AlreadyExists, ApiError, InvalidSpec, Unreachable
from pliant.frontends.scaleplan import owner_job_name
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.master.brain.decide import decide_next_action, observe_without_deciding
from pliant.master.brain.observe import state_with_appeared_members
from pliant.master.brain.state import BrainState, align_to_clock_jump, load_brain_state
from pliant.master.brain.timing import BrainTiming
from pliant.master.control.parsing import JOB_LABEL, member_key_and_rank, members_from_pods, parse_elastic_job
from pliant.master.control.scale_plans import (
    ELASTIC_JOBS,
    SCALE_PLANS,
    blocks_next_plan,
    build_scale_plan,
    have_requested_members_appeared,
    next_plan_number,
    plan_message,
    plan_phase,
)
from pliant.master.model import JobCompletion, JobMember, JobSnapshot, MasterJobSpec, MemberKey, ScaleAction
from pliant.master.server.service import MasterService
from pliant.runtime.clock import Clock, ClockJumpDetector, JumpAwareClock
from pliant.runtime.workqueue import Backoff

RECONCILE_INTERVAL_SECONDS = 1.0
DEBOUNCE_SECONDS = 0.2  # changes within this time are handled together: a node failure affects many members
POD_APPEARANCE_TIMEOUT = timedelta(seconds=5)
"""How long pods may take to appear once the operator has carried out their plan."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPlan:
    name: str
    spec: Mapping[str, Any]
    previous_state: BrainState
    sent_at: datetime
    is_acknowledged: bool = True  # whether the API server has confirmed the creation


class MasterLoop:
    """Controls the members of one job until the job ends."""

    def __init__(
        self, client: KubeClient, job: MasterJobSpec, service: MasterService, clock: Clock, timing: BrainTiming
    ) -> None:
        self._client, self._job, self._service = client, job, service
        self._clock, self._jumps, self._timing = JumpAwareClock(clock), ClockJumpDetector(clock), timing
        self._changed = asyncio.Event()
        self._arrived_ranks: dict[MemberKey, int] = {}
        self._sent_plan: SentPlan | None = None
        self._failures = 0
        self._not_before: datetime | None = None
        self._last_problem = ""
        self.state: BrainState = load_brain_state(service.brain_state.get("state") or {})
        labels = f"{JOB_LABEL}={job.name}"
        self._pods = Informer(client, PODS, Pod, namespace=job.namespace, labels=labels, on_change=self._on_pod_change)
        self._plans: Informer[Any] = Informer(
            client, SCALE_PLANS, dict, namespace=job.namespace, labels=labels, on_change=self._on_change
        )
        by_name = f"metadata.name={job.name}"
        self._jobs: Informer[Any] = Informer(
            client, ELASTIC_JOBS, dict, namespace=job.namespace, fields=by_name, on_change=self._on_change
        )

    async def run_until_job_ends(self) -> JobCompletion:
        informers = (self._pods, self._plans, self._jobs)
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            for informer in informers:
                await informer.wait_synced()
            while True:
                completion = await self._reconcile()
                if completion is not None:
                    return completion
                await self._wait_for_changes()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_change(self, old: object, new: object) -> None:
        self._changed.set()

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        """Record new members at once: they may be gone before the next reconciliation."""
        self._changed.set()
        if old is None and new is not None and new.metadata.deletion_timestamp is None:
            key_and_rank = member_key_and_rank(new) if self._is_owned_by_job(new) else None
            if key_and_rank is not None:
                self._arrived_ranks[key_and_rank[0]] = key_and_rank[1]

    def _is_owned_by_job(self, pod: Pod) -> bool:
        """Check the owner reference, because any user may set the labels."""
        return any(ref.uid == self._job.uid for ref in pod.metadata.owner_references)

    async def _wait_for_changes(self) -> None:
        """Wait until changes arrive and stop arriving, or for the reconcile interval."""
        try:
            async with asyncio.timeout(RECONCILE_INTERVAL_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return
        for _ in range(3):
            self._changed.clear()
            await asyncio.sleep(DEBOUNCE_SECONDS)
            if not self._changed.is_set():
                return

    async def _reconcile(self) -> JobCompletion | None:
        now = self._clock.now()
        if jump := self._jumps.read_jump():
            self._align_to_clock_jump(jump)
        self._changed.clear()
        job_exists = self._refresh_job()
        pods = [pod for pod in self._pods.store.all() if self._is_owned_by_job(pod)]
        members = self._in_present_time(members_from_pods(pods, self._service.heartbeats(), now))
        self._service.set_members(members)
        arrivals, self._arrived_ranks = self._arrived_ranks, {}
        if arrivals:
            self.state = state_with_appeared_members(self.state, arrivals)
        snapshot = self._build_snapshot(members, now)
        self._save_state(observe_without_deciding(snapshot, self.state, self._timing))
        if not job_exists or self._is_plan_pending(now):
            return None
        decision, state = decide_next_action(snapshot, self.state, self._timing)
        if isinstance(decision, ScaleAction):
            await self._create_plan(decision, state, now)
            return None
        self._save_state(state)
        return decision

    def _align_to_clock_jump(self, jump: timedelta) -> None:
        """Do not count time in which the machine slept, or by which its clock was set."""
        log.warning("clock jumped", extra={"seconds": jump.total_seconds()})
        self.state = align_to_clock_jump(self.state, jump)
        if self._sent_plan is not None:
            previous = align_to_clock_jump(self._sent_plan.previous_state, jump)
            self._sent_plan = replace(self._sent_plan, sent_at=self._sent_plan.sent_at + jump, previous_state=previous)
        if self._not_before is not None:
            self._not_before += jump

    def _in_present_time(self, members: tuple[JobMember, ...]) -> tuple[JobMember, ...]:
        if not self._clock.has_jumped:
            return members
        return tuple(replace(each, created_at=self._clock.to_present(each.created_at)) for each in members)

    def _refresh_job(self) -> bool:
        """Read the job again; return whether it still exists and is not being deleted."""
        raw = self._jobs.store.get(self._job.namespace, self._job.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            return False
        try:
            self._job, self._last_problem = parse_elastic_job(raw), ""
        except InvalidSpec as error:
            if str(error) != self._last_problem:
                self._last_problem = str(error)
                log.warning(
                    "invalid ElasticJob: the last valid spec stays in effect", extra={"error": self._last_problem}
                )
        return True

    def _build_snapshot(self, members: tuple[JobMember, ...], now: datetime) -> JobSnapshot:
        service = self._service
        return JobSnapshot(
            now=now,
            job=self._job,
            members=members,
            speed_by_worker_count=service.speed_by_worker_count(),
            unassigned_shard_count=service.dispatcher.unassigned_shard_count,
            are_shards_done=service.dispatcher.are_datasets_done,
        )

    def _is_plan_pending(self, now: datetime) -> bool:
        """Return whether a plan is in progress, or the last one failed and its backoff is not over."""
        plans = {plan["metadata"]["name"]: plan for plan in self._plans.store.all()}
        sent = self._sent_plan
        if sent is not None and self._is_plan_in_progress(sent, plans.get(sent.name), now):
            return True
        if self._not_before is not None and now < self._not_before:
            return True
        # Plans of an earlier master: the operator carries them out or deletes them.
        return any(
            (plan["metadata"].get("labels") or {}).get("scale-type") == "auto"
            and blocks_next_plan(plan, self.state.newest_ids)
            for plan in plans.values()
            if owner_job_name(plan) == self._job.name
        )

    def _is_plan_in_progress(self, sent: SentPlan, plan: dict[str, Any] | None, now: datetime) -> bool:
        if plan is None and not sent.is_acknowledged:
            if now - sent.sent_at < POD_APPEARANCE_TIMEOUT:
                return True
            self.state, self._sent_plan = sent.previous_state, None  # the plan was not created
            return False
        if plan is not None and plan_phase(plan) == "Failed":
            self._abandon_plan(sent, plan_message(plan), now)
            return True
        has_members = have_requested_members_appeared(sent.spec, self.state.newest_ids)
        is_waiting_for_pods = not has_members and now - sent.sent_at < POD_APPEARANCE_TIMEOUT
        if (plan is not None and blocks_next_plan(plan, self.state.newest_ids)) or is_waiting_for_pods:
            return True
        log.info("scale plan completed", extra={"plan": sent.name})
        self._sent_plan, self._failures, self._not_before = None, 0, None
        return False

    async def _create_plan(self, action: ScaleAction, state: BrainState, now: datetime) -> None:
        """Create a ScalePlan; the new state is saved once the API server has the plan."""
        names = [plan["metadata"]["name"] for plan in self._plans.store.all()]
        number = next_plan_number(self._job.name, names, int(self._service.brain_state.get("next_plan_number") or 0))
        name = f"{self._job.name}-scaleplan-{number}"
        body = build_scale_plan(self._job, action, name)
        sent = SentPlan(name=name, spec=body["spec"], previous_state=self.state, sent_at=now)
        try:
            created = await self._client.create(SCALE_PLANS, self._job.namespace, body)
            self._plans.store.apply_own_write(created)
        except AlreadyExists:
            self._service.brain_state = {**self._service.brain_state, "next_plan_number": number + 1}
            self._changed.set()
            return
        except Unreachable as error:
            log.warning("no response to the creation of a scale plan", extra={"plan": name, "error": str(error)})
            sent = replace(sent, is_acknowledged=False)
        except ApiError as error:
            self._abandon_plan(sent, str(error), now)
            return
        log.info("scale plan created", extra={"plan": name, "stage": str(action.stage), "reason": action.reason})
        self._sent_plan = sent
        self._service.brain_state = {**self._service.brain_state, "next_plan_number": number + 1}
        self._save_state(state)

    def _abandon_plan(self, sent: SentPlan, reason: str, now: datetime) -> None:
        """Return to the state before a plan, and retry later."""
        self._failures += 1
        backoff = Backoff(initial=timedelta(seconds=2), maximum=timedelta(minutes=5))
        delay = backoff.delay(self._failures, random.Random())
        retry_after = f"{delay.total_seconds():.0f} s"
        log.warning("scale plan failed", extra={"plan": sent.name, "reason": reason, "retry_after": retry_after})
        self._sent_plan, self._not_before = None, now + delay
        self._save_state(sent.previous_state)

    def _save_state(self, state: BrainState) -> None:
        self.state = state
        if state.ps_hosts:
            self._service.set_parameter_servers(state.ps_version, state.ps_hosts)
        saved = {**self._service.brain_state, "state": state.dump_state()}
        if saved != self._service.brain_state:
            self._service.brain_state = saved
            self._service.request_save()
