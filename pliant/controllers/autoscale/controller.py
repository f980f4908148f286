"""The autoscale controller: plans group sizes when the cluster changes and publishes them as recommendations."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pliant.autoscale.cooldowns import FINISHING_REASON
from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, SizeDecision, SizePlan, SizeReason
from pliant.autoscale.policies.registry import plan_with_policies
from pliant.controllers.autoscale.informers import AutoscaleInformers
from pliant.controllers.autoscale.node_usage import ClusterChange
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.autoscale.recommendations import (
    RecommendationContext,
    RecommendationStore,
    recommend_size,
    unadopted_size,
)
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs, is_autoscalable
from pliant.controllers.autoscale.scale_history import ScaleHistory
from pliant.controllers.autoscale.snapshot import GroupSnapshot, SnapshotOptions
from pliant.controllers.autoscale.throughput import ThroughputTracker
from pliant.controllers.observe import observe_clock
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.model.job import Job, JobKey
from pliant.model.observed import ScaleRecommendation
from pliant.model.state import EngineState
from pliant.runtime.clock import Clock, ClockJumpDetector, JumpAwareClock
from pliant.runtime.controller import Controller
from pliant.runtime.metrics import Histogram

MIN_REPLAN_INTERVAL_SECONDS = 1.0  # the minimum interval in seconds between two plans while pods are pending
CHANGE_BATCH_SECONDS = 0.05  # seconds for which changes are batched before planning
JOBS_PER_EVENT_LOOP_TURN = 50  # jobs registered at a time before yielding to the event loop
MAX_EVENT_LOOP_PROBLEM_SIZE = 200
"""Nodes and groups up to which planning runs on the event loop; larger problems are planned in a thread."""
THROUGHPUT_POLICY = "goodput"  # the policy that uses measured throughput

_SnapshotsByKey = Mapping[GroupKey, GroupSnapshot]

log = logging.getLogger(__name__)


class AutoscaleController:
    def __init__(  # noqa: PLR0913
        self,
        client: KubeClient,
        clock: Clock,
        nodes: Informer[Node],
        recommendations: RecommendationStore,
        options: AutoscaleOptions,
        *,
        list_jobs: Callable[[], Iterable[tuple[Job, EngineState | None]]],
        on_recommendation: Callable[[Job], None],
        disabled_reason: str = "",
    ) -> None:
        self.controller: Controller[str] = Controller("autoscaler", self._replan, workers=1)
        self.plan_durations = Histogram()
        self.resize_counts: Counter[str] = Counter()  # resizes by reason
        self.scalable_jobs = ScalableJobs()
        self.cluster_informers = AutoscaleInformers(client, nodes, self.scalable_jobs, self._on_cluster_change)
        self._clock, self._jumps = JumpAwareClock(clock), ClockJumpDetector(clock)
        self._recommendations = recommendations
        self._options = options
        self._list_jobs = list_jobs
        self._on_recommendation = on_recommendation
        self._disabled_reason = disabled_reason
        self._scale_history = ScaleHistory(options.cooldowns)
        self._throughput_tracker = ThroughputTracker()
        self._new_throughputs: dict[tuple[str, str], Mapping[int, float]] = {}
        self._has_jobs = asyncio.Event()
        self._is_watching = False
        self._planned_at = float("-inf")

    @property
    def own_informers(self) -> Mapping[str, Informer[Any]]:
        """The informers used for planning only; empty until there is a job to plan for."""
        return self.cluster_informers.own_informers if self._is_watching else {}

    async def run(self) -> None:
        """Plan until cancelled, starting with the first autoscalable job."""
        await self._has_jobs.wait()
        self._disabled_reason = self._disabled_reason or await self.cluster_informers.find_missing_permission()
        if self._disabled_reason:
            log.info("autoscaler disabled", extra={"reason": self._disabled_reason})
            for job in list(self.scalable_jobs):
                self._publish_disabled(job)
            return
        async with asyncio.TaskGroup() as tasks:
            await self.cluster_informers.start(tasks)
            await self._register_all_jobs()
            self._is_watching = True
            self._on_cluster_change(ClusterChange.DEMAND)
            await self.controller.run()

    async def _register_all_jobs(self) -> None:
        """Register all jobs before the first plan: otherwise their pods would count as pods of other workloads."""
        for number, (job, state) in enumerate(self._list_jobs()):
            self.cluster_informers.snapshots.mark_jobs_changed(self.scalable_jobs.update(job, state))
            if number % JOBS_PER_EVENT_LOOP_TURN == 0:
                await asyncio.sleep(0)

    def observe_job(self, job: Job, state: EngineState | None, progress: Mapping[str, Any]) -> None:
        changed = self.scalable_jobs.update(job, state)
        if self.scalable_jobs.get(job.owner.uid) is not None:
            self._record_throughput(job, progress)
            self._has_jobs.set()
            if self._disabled_reason:
                self._publish_disabled(job)
        self._mark_jobs_changed(changed)

    def forget_job(self, qualified_kind: str, key: JobKey) -> None:
        self._mark_jobs_changed(self.scalable_jobs.remove(qualified_kind, key))

    def on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._has_jobs.is_set():
            self.cluster_informers.on_node_changed(old, new)

    def _mark_jobs_changed(self, job_uids: Iterable[str]) -> None:
        if job_uids := set(job_uids):
            self.cluster_informers.snapshots.mark_jobs_changed(job_uids)
            self._on_cluster_change(ClusterChange.DEMAND)

    def _on_cluster_change(self, change: ClusterChange) -> None:
        """Schedule a replan: soon if there is new demand, else when the planning period is over."""
        if not self._is_watching:
            return
        gap = MIN_REPLAN_INTERVAL_SECONDS if change is ClusterChange.DEMAND else self._options.period.total_seconds()
        wait = max(self._planned_at + gap - asyncio.get_running_loop().time(), CHANGE_BATCH_SECONDS)
        self.controller.queue.add_after("cluster", timedelta(seconds=wait))

    async def _replan(self, _: str) -> timedelta | None:
        """Build a snapshot, plan and publish; return when a cooldown ends that a new plan must consider."""
        loop = asyncio.get_running_loop()
        self._planned_at = loop.time()
        now = self._clock.now()
        if self._jumps.read_jump():
            self._start_over()
        snapshots = {each.elastic.key: each for each in self.cluster_informers.snapshots.group_snapshots()}
        elastics = {key: self._with_cooldowns(each, now) for key, each in snapshots.items()}
        planning_input = self._planning_input(snapshots, elastics, now)
        if planning_input.problem_size > MAX_EVENT_LOOP_PROBLEM_SIZE:
            plan = await asyncio.to_thread(plan_sizes, planning_input)
        else:
            plan = plan_sizes(planning_input)
        self.plan_durations.observe(loop.time() - self._planned_at)
        self._publish_recommendations(snapshots, elastics, plan, now)
        self._scale_history.retain_only(elastics)
        replan_at = self._scale_history.next_replan_at(now.timestamp())
        return (
            None
            if replan_at is None
            else timedelta(seconds=max(replan_at - now.timestamp(), MIN_REPLAN_INTERVAL_SECONDS))
        )

    def _start_over(self) -> None:
        """Forget times from before a jump of the clock, as after a restart: the states of the jobs have the rest."""
        self._scale_history = ScaleHistory(self._options.cooldowns)
        self._recommendations.retain_only(())
        self.scalable_jobs.align_timers(observe_clock(self._clock))
        self.cluster_informers.snapshots.mark_nodes_changed()

    def _with_cooldowns(self, snapshot: GroupSnapshot, now: datetime) -> ElasticGroup:
        group = snapshot.elastic.key.group
        state = self.scalable_jobs.state_of(snapshot.job_uid)
        waiting = unadopted_size(self._recommendations.for_job(snapshot.job_uid).get(group), state.group(group))
        elastic = self._scale_history.with_cooldowns(snapshot, state, waiting, now.timestamp())
        if self._policy_name(self._registered_job(snapshot.job_uid)) != THROUGHPUT_POLICY:
            return elastic
        return self._scale_history.hold_growth_until_measured(elastic, snapshot, now.timestamp())

    def _planning_input(
        self, snapshots: _SnapshotsByKey, elastics: Mapping[GroupKey, ElasticGroup], now: datetime
    ) -> PlanningInput:
        options = SnapshotOptions(now, self._options.max_load)
        cluster = self.cluster_informers.snapshots.build_cluster(snapshots, elastics, options)
        jobs = {key: self._registered_job(each.job_uid) for key, each in snapshots.items()}
        return PlanningInput(
            cluster=cluster,
            default_policy=self._options.policy,
            policy_by_group={key: job.autoscaling.policy for key, job in jobs.items() if job.autoscaling.policy},
            advisory_groups=frozenset(key for key, job in jobs.items() if self._is_advisory(job)),
        )

    def _publish_recommendations(
        self, snapshots: _SnapshotsByKey, elastics: Mapping[GroupKey, ElasticGroup], plan: SizePlan, now: datetime
    ) -> None:
        published: dict[str, dict[str, ScaleRecommendation]] = {}
        for key, each in snapshots.items():
            elastic, job = elastics[key], self.scalable_jobs.get(each.job_uid)
            if job is None:
                continue  # the job finished while its size was planned
            decision = plan.get(key) or SizeDecision(elastic.size, SizeReason.FIXED, FINISHING_REASON)
            before = self._recommendations.for_job(each.job_uid).get(key.group)
            recommendation = self._recommendation(job, each, decision, now)
            if recommendation is not before and recommendation.should_apply and decision.size != elastic.size:
                self._scale_history.record_resize(key, decision.size - elastic.size, now.timestamp())
                self.resize_counts[str(decision.reason)] += 1
            published.setdefault(each.job_uid, {})[key.group] = recommendation
        for uid, recommendations in published.items():
            job = self.scalable_jobs.get(uid)
            if self._recommendations.set_for_job(uid, recommendations) and job is not None:
                self._on_recommendation(job)
        self._recommendations.retain_only(published)

    def _recommendation(
        self, job: Job, snapshot: GroupSnapshot, decision: SizeDecision, now: datetime
    ) -> ScaleRecommendation:
        group, uid = snapshot.elastic.key.group, snapshot.job_uid
        context = RecommendationContext(
            at=now,
            observed_at=snapshot.observed_at,
            should_apply=not self._is_advisory(job),
            throughput_by_size=self._new_throughputs.pop((uid, group), {}),
        )
        return recommend_size(
            decision,
            self.scalable_jobs.state_of(uid).group(group),
            self._recommendations.for_job(uid).get(group),
            context,
        )

    def _policy_name(self, job: Job) -> str:
        return job.autoscaling.policy or self._options.policy

    def _is_advisory(self, job: Job) -> bool:
        return self._options.is_advice_only or bool(job.autoscaling.is_advice_only)

    def _record_throughput(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Record a job's throughput, if its policy uses it and the job has exactly one autoscalable group."""
        scalable = [group.name for group in job.groups if is_autoscalable(group)]
        if self._policy_name(job) != THROUGHPUT_POLICY or len(scalable) != 1:
            return
        if throughputs := self._throughput_tracker.measure(
            job, self.scalable_jobs.state_of(job.owner.uid), scalable[0], progress
        ):
            self._new_throughputs[job.owner.uid, scalable[0]] = throughputs
            self._on_cluster_change(ClusterChange.CAPACITY)

    def _publish_disabled(self, job: Job) -> None:
        state, uid, now = self.scalable_jobs.state_of(job.owner.uid), job.owner.uid, self._clock.now()
        context = RecommendationContext(at=now, observed_at=None, should_apply=False, throughput_by_size={})
        recommendations = {
            group.name: recommend_size(
                SizeDecision(size, SizeReason.FIXED, f"the autoscaler is disabled: {self._disabled_reason}"),
                state.group(group.name),
                self._recommendations.for_job(uid).get(group.name),
                context,
            )
            for group in filter(is_autoscalable, job.groups)
            if (size := state.group(group.name).applied_size)
        }
        if recommendations and self._recommendations.set_for_job(uid, recommendations):
            self._on_recommendation(job)

    def _registered_job(self, job_uid: str) -> Job:
        job = self.scalable_jobs.get(job_uid)
        assert job is not None, "the snapshot of an unregistered job"
        return job


ADVISORY_NOTE = "its size is advice only"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInput:
    """The input of planning: plain values that a thread can work on."""

    cluster: ClusterSnapshot
    default_policy: str  # for groups without a policy of their own
    policy_by_group: Mapping[GroupKey, str]
    advisory_groups: frozenset[GroupKey] = frozenset()  # groups that get a recommendation but are not resized

    @property
    def problem_size(self) -> int:
        return len(self.cluster.nodes) + len(self.cluster.groups)


def plan_sizes(planning_input: PlanningInput) -> SizePlan:
    """Return a decision on every group; groups that are resized are planned as if advisory groups kept their size."""
    cluster = planning_input.cluster
    keys = {each.key for each in cluster.groups}
    if not planning_input.advisory_groups or planning_input.advisory_groups >= keys:
        return plan_with_policies(cluster, planning_input.policy_by_group, planning_input.default_policy)
    with_fixed = replace(cluster, groups=tuple(_fix_advisory_groups(cluster.groups, planning_input.advisory_groups)))
    decisions = plan_with_policies(with_fixed, planning_input.policy_by_group, planning_input.default_policy)
    advice = plan_with_policies(cluster, planning_input.policy_by_group, planning_input.default_policy)
    return {key: (advice if key in planning_input.advisory_groups else decisions)[key] for key in keys}


def _fix_advisory_groups(
    groups: Iterable[ElasticGroup], advisory_groups: frozenset[GroupKey]
) -> Iterable[ElasticGroup]:
    for each in groups:
        yield replace(each, is_fixed=True, restriction_reason=ADVISORY_NOTE) if each.key in advisory_groups else each
