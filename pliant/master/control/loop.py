"""The master's loop: looks at pods and plans, decides, and asks the operator for one thing at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pliant.errors import AlreadyExists, ApiError, InvalidSpec, Unreachable
from pliant.frontends.scaleplan import owner_job_name
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.master.brain.decide import decide_next_action, observe_snapshot
from pliant.master.brain.observe import state_with_arrivals
from pliant.master.brain.state import BrainState, load_brain_state
from pliant.master.brain.timing import BrainTiming
from pliant.master.control.job_spec import parse_elastic_job
from pliant.master.control.pods import JOB_LABEL, member_key_and_rank, members_from_pods
from pliant.master.control.scale_plans import (
    ELASTIC_JOBS,
    SCALE_PLANS,
    build_scale_plan,
    has_requested_members,
    is_blocking_plan,
    next_plan_number,
    plan_message,
    plan_phase,
)
from pliant.master.model import JobCompletion, JobMember, JobSnapshot, MasterJobSpec, MemberKey, ScaleAction
from pliant.master.server.service import MasterService
from pliant.runtime.clock import Clock
from pliant.runtime.workqueue import Backoff

RECONCILE_INTERVAL_SECONDS = 1.0
"""Seconds between two looks when nothing happens."""
DEBOUNCE_SECONDS = 0.2
"""What happens within so many seconds is looked at together: machines take many members with them."""
POD_APPEARANCE_TIMEOUT = timedelta(seconds=5)
"""How long pods may take to be seen once their plan is carried out."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPlan:
    """A plan that the operator was asked to carry out."""

    name: str
    action: ScaleAction
    previous_state: BrainState
    """What was known before, in case nothing comes of it."""
    sent_at: datetime
    is_acknowledged: bool = True
    """Whether the server has said that it has the plan."""


class MasterLoop:
    """Steers one job until it ends."""

    def __init__(
        self, client: KubeClient, job: MasterJobSpec, service: MasterService, clock: Clock, timing: BrainTiming
    ) -> None:
        self._client, self._job, self._service = client, job, service
        self._clock, self._timing = clock, timing
        self._changed = asyncio.Event()
        self._arrived_ranks: dict[MemberKey, int] = {}
        self._sent_plan: SentPlan | None = None
        self._failures = 0
        self._not_before: datetime | None = None
        self._last_problem = ""
        self.state: BrainState = load_brain_state(service.brain_state.get("memory") or {})
        labels = f"{JOB_LABEL}={job.name}"
        self._pods = Informer(client, PODS, Pod, namespace=job.namespace, labels=labels, on_change=self._on_pod_change)
        self._plans: Informer[Any] = Informer(
            client, SCALE_PLANS, dict, namespace=job.namespace, labels=labels, on_change=self._on_change
        )
        only = f"metadata.name={job.name}"
        self._jobs: Informer[Any] = Informer(
            client, ELASTIC_JOBS, dict, namespace=job.namespace, fields=only, on_change=self._on_change
        )

    async def run(self) -> JobCompletion:
        """Steer until the job is over as far as its members are concerned."""
        informers = (self._pods, self._plans, self._jobs)
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            for informer in informers:
                await informer.wait_synced()
            while True:
                end = await self._reconcile()
                if end is not None:
                    return end
                await self._wait_for_changes()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _on_change(self, old: object, new: object) -> None:
        self._changed.set()

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        """Take down who comes: they may be gone before the next look."""
        self._changed.set()
        if old is None and new is not None and new.metadata.deletion_timestamp is None:
            place = member_key_and_rank(new) if self._is_owned_by_job(new) else None
            if place is not None:
                self._arrived_ranks[place[0]] = place[1]

    def _is_owned_by_job(self, pod: Pod) -> bool:
        """Whether a pod belongs to this job: anybody may write labels."""
        return any(ref.uid == self._job.uid for ref in pod.metadata.owner_references)

    async def _wait_for_changes(self) -> None:
        """Until something has happened and come to rest, or for a while."""
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
        self._changed.clear()
        is_there = self._refresh_job()
        pods = [pod for pod in self._pods.store.all() if self._is_owned_by_job(pod)]
        nodes = members_from_pods(pods, self._service.heartbeats(), now)
        self._service.set_members(nodes)
        arrivals, self._arrived_ranks = self._arrived_ranks, {}
        if arrivals:
            self.state = state_with_arrivals(self.state, arrivals)
        picture = self._build_snapshot(nodes, now)
        self._save_state(observe_snapshot(picture, self.state, self._timing))
        if not is_there or self._is_plan_pending(now):
            return None
        answer, memory = decide_next_action(picture, self.state, self._timing)
        if isinstance(answer, ScaleAction):
            await self._create_plan(answer, memory, now)
            return None
        self._save_state(memory)
        return answer

    def _refresh_job(self) -> bool:
        """Look at the job; whether it is there: when it goes, its members do, and so do we."""
        raw = self._jobs.store.get(self._job.namespace, self._job.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            return False
        try:
            self._job, self._last_problem = parse_elastic_job(raw), ""
        except InvalidSpec as problem:
            if str(problem) != self._last_problem:
                self._last_problem = str(problem)
                log.warning("job cannot be read: going on as before", extra={"because": self._last_problem})
        return True

    def _build_snapshot(self, members: tuple[JobMember, ...], now: datetime) -> JobSnapshot:
        service = self._service
        return JobSnapshot(
            now=now,
            job=self._job,
            members=members,
            speed_by_workers=service.speed_by_workers(),
            shards_left=service.shards_left(),
            are_shards_done=service.are_shards_done(),
        )

    def _is_plan_pending(self, now: datetime) -> bool:
        """Whether a plan is under way, or the last one failed just now."""
        plans = {plan["metadata"]["name"]: plan for plan in self._plans.store.all()}
        if self._sent_plan is not None and self._is_plan_in_progress(
            self._sent_plan, plans.get(self._sent_plan.name), now
        ):
            return True
        if self._not_before is not None and now < self._not_before:
            return True
        # Plans of a master before this one: the operator carries them out, or clears them away.
        own = (plan for plan in plans.values() if owner_job_name(plan) == self._job.name)
        return any(_is_auto_plan(plan) and is_blocking_plan(plan) for plan in own)

    def _is_plan_in_progress(self, sent: SentPlan, plan: dict[str, Any] | None, now: datetime) -> bool:
        if plan is None and not sent.is_acknowledged:
            if now - sent.sent_at < POD_APPEARANCE_TIMEOUT:
                return True
            self.state, self._sent_plan = sent.previous_state, None  # it never arrived
            return False
        if plan is not None and plan_phase(plan) == "Failed":
            self._abandon_plan(sent, plan_message(plan), now)
            return True
        shown = has_requested_members(sent.action, self.state.newest_ids)
        if (plan is not None and is_blocking_plan(plan)) or (not shown and now - sent.sent_at < POD_APPEARANCE_TIMEOUT):
            return True
        log.info("plan carried out", extra={"plan": sent.name})
        self._sent_plan, self._failures, self._not_before = None, 0, None
        return False

    async def _create_plan(self, action: ScaleAction, state: BrainState, now: datetime) -> None:
        """Ask for a step; what was decided is remembered once the server has it."""
        names = [plan["metadata"]["name"] for plan in self._plans.store.all()]
        number = next_plan_number(self._job.name, names, int(self._service.brain_state.get("plans") or 0))
        name = f"{self._job.name}-scaleplan-{number}"
        sent = SentPlan(name=name, action=action, previous_state=self.state, sent_at=now)
        try:
            made = await self._client.create(
                SCALE_PLANS, self._job.namespace, build_scale_plan(self._job, action, name)
            )
            self._plans.store.note_written(made)
        except AlreadyExists:
            self._service.brain_state = {**self._service.brain_state, "plans": number + 1}
            self._changed.set()
            return
        except Unreachable as problem:
            log.warning("plan sent, no answer", extra={"plan": name, "because": str(problem)})
            sent = SentPlan(name=name, action=action, previous_state=self.state, sent_at=now, is_acknowledged=False)
        except ApiError as problem:
            self._abandon_plan(sent, str(problem), now)
            return
        log.info("step", extra={"plan": name, "stage": str(action.stage), "because": action.reason})
        self._sent_plan = sent
        self._service.brain_state = {**self._service.brain_state, "plans": number + 1}
        self._save_state(state)

    def _abandon_plan(self, sent: SentPlan, reason: str, now: datetime) -> None:
        """Forget what a plan was to bring about, and try again later."""
        self._failures += 1
        wait = Backoff(initial=timedelta(seconds=2), maximum=timedelta(minutes=5)).delay(
            self._failures, random.Random()
        )
        log.warning(
            "plan failed", extra={"plan": sent.name, "because": reason, "again_in": f"{wait.total_seconds():.0f} s"}
        )
        self._sent_plan, self._not_before = None, now + wait
        self._save_state(sent.previous_state)

    def _save_state(self, state: BrainState) -> None:
        self.state = state
        if state.ps_hosts:
            self._service.set_parameter_servers(state.ps_version, state.ps_hosts)
        saved = {**self._service.brain_state, "memory": state.dump_state()}
        if saved != self._service.brain_state:
            self._service.brain_state = saved
            self._service.request_save()


def _is_auto_plan(plan: dict[str, Any]) -> bool:
    return bool((plan["metadata"].get("labels") or {}).get("scale-type") == "auto")
