"""Plans sizes whenever the cluster has changed, and leaves them as wishes for the jobs' own passes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, GroupKey, SizeDecision, SizePlan, SizeReason
from pliant.autoscale.policies.registry import plan_with_policies
from pliant.controllers.autoscale import snapshot
from pliant.controllers.autoscale.informers import AutoscaleInformers
from pliant.controllers.autoscale.node_usage import ClusterChange
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.autoscale.recommendations import (
    RecommendationContext,
    RecommendationStore,
    pending_size,
    recommend_size,
)
from pliant.controllers.autoscale.scalable_jobs import ScalableJobs, is_autoscalable
from pliant.controllers.autoscale.scale_history import ScaleHistory
from pliant.controllers.autoscale.snapshot import GroupSnapshot
from pliant.controllers.autoscale.throughput import ThroughputTracker
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.model.job import Job, JobKey
from pliant.model.observed import ScaleRecommendation
from pliant.model.state import EngineState
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller
from pliant.runtime.metrics import Histogram

REPLAN_DELAY = 1.0
"""Seconds between two plans at least while somebody waits."""
CHANGE_BATCH_DELAY = 0.05
"""Seconds for which news gather: seldom does one thing change alone."""
JOB_BATCH_SIZE = 50
"""Jobs that are met at a stretch when there are many."""
MAX_INLINE_PLAN_SIZE = 200
"""Nodes and groups that are planned on the spot; more of them in a thread, as that takes a while."""
THROUGHPUT_POLICY = "goodput"
"""The policy that goes by how fast jobs are."""
FINISHING_MESSAGE = "a member has ended its work, the others are about to"

_SnapshotsByKey = Mapping[GroupKey, GroupSnapshot]

log = logging.getLogger(__name__)


class AutoscaleController:
    """Looks at nothing until there is a job whose size it may set, and at nothing twice that has not changed."""

    def __init__(  # noqa: PLR0913
        self,
        client: KubeClient,
        clock: Clock,
        nodes: Informer[Node],
        recommendations: RecommendationStore,
        options: AutoscaleOptions,
        *,
        list_jobs: Callable[[], Iterable[Job]],
        on_recommendation: Callable[[Job], None],
        disabled_reason: str = "",
    ) -> None:
        self.controller: Controller[str] = Controller("autoscaler", self._replan, workers=1)
        self.plan_durations = Histogram()
        """How long plans took."""
        self.resize_counts: Counter[str] = Counter()
        """Orders given, by the kind of their reason."""
        self.scalable_jobs = ScalableJobs()
        self.cluster_informers = AutoscaleInformers(client, nodes, self.scalable_jobs, self._on_cluster_change)
        self._clock = clock
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
        """What is watched for plans alone; nothing until there is a job to plan for."""
        return self.cluster_informers.own_informers if self._is_watching else {}

    async def run(self) -> None:
        """Plan until cancelled, from when there is a job to plan for."""
        await self._has_jobs.wait()
        self._disabled_reason = self._disabled_reason or await self.cluster_informers.disabled_reason()
        if self._disabled_reason:
            log.info("autoscaler off", extra={"because": self._disabled_reason})
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
        """Know every job before the first plan: members of others would pass for somebody else's pods."""
        for number, job in enumerate(self._list_jobs()):
            self.cluster_informers.snapshots.mark_jobs_changed(self.scalable_jobs.update(job))
            if number % JOB_BATCH_SIZE == 0:
                await asyncio.sleep(0)

    def observe_job(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Take in a job as its own pass sees it."""
        changed = self.scalable_jobs.update(job)
        if self.scalable_jobs.get(job.owner.uid) is not None:
            self._record_throughput(job, progress)
            self._has_jobs.set()
            if self._disabled_reason:
                self._publish_disabled(job)
        self._mark_jobs_changed(changed)

    def forget_job(self, qualified_kind: str, key: JobKey) -> None:
        """Take in that a job is gone."""
        self._mark_jobs_changed(self.scalable_jobs.remove(qualified_kind, key))

    def on_node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if self._has_jobs.is_set():
            self.cluster_informers.on_node_changed(old, new)

    def _mark_jobs_changed(self, job_uids: Iterable[str]) -> None:
        if job_uids := set(job_uids):
            self.cluster_informers.snapshots.mark_jobs_changed(job_uids)
            self._on_cluster_change(ClusterChange.DEMAND)

    def _on_cluster_change(self, change: ClusterChange) -> None:
        """Plan when it is time: soon if somebody waits, else not before the period is over."""
        if not self._is_watching:
            return
        gap = REPLAN_DELAY if change is ClusterChange.DEMAND else self._options.period.total_seconds()
        wait = max(self._planned_at + gap - asyncio.get_running_loop().time(), CHANGE_BATCH_DELAY)
        self.controller.queue.add_after("cluster", timedelta(seconds=wait))

    async def _replan(self, _: str) -> timedelta | None:
        """Draw, plan and tell; returns when something may be done that may not be done now."""
        loop = asyncio.get_running_loop()
        self._planned_at = loop.time()
        now = self._clock.now()
        drawn = {each.elastic.key: each for each in self.cluster_informers.snapshots.group_snapshots()}
        elastics = {key: self._with_cooldowns(each, now) for key, each in drawn.items()}
        sketch = self._planning_input(drawn, elastics, now)
        found = await (
            asyncio.to_thread(plan_sizes, sketch)
            if sketch.problem_size > MAX_INLINE_PLAN_SIZE
            else _plan_inline(sketch)
        )
        self.plan_durations.observe(loop.time() - self._planned_at)
        self._publish_recommendations(drawn, elastics, found, now)
        self._scale_history.retain_only(elastics)
        look = self._scale_history.next_replan_at(now.timestamp())
        return None if look is None else timedelta(seconds=max(look - now.timestamp(), REPLAN_DELAY))

    def _with_cooldowns(self, snapshot: GroupSnapshot, now: datetime) -> ElasticGroup:
        group = snapshot.elastic.key.group
        state = self._engine_state(snapshot.job_uid)
        waiting = pending_size(self._recommendations.for_job(snapshot.job_uid).get(group), state.group(group))
        elastic = self._scale_history.with_cooldowns(snapshot, state, waiting, now.timestamp())
        if self._policy_name(self._registered_job(snapshot.job_uid)) != THROUGHPUT_POLICY:
            return elastic
        return self._scale_history.hold_until_measured(elastic, snapshot, now.timestamp())

    def _planning_input(
        self, snapshots: _SnapshotsByKey, elastics: Mapping[GroupKey, ElasticGroup], now: datetime
    ) -> PlanningInput:
        terms = snapshot.SnapshotOptions(now, self._options.max_load)
        cluster = self.cluster_informers.snapshots.build_cluster(snapshots, elastics, terms)
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
        """Leave what is wanted with the jobs, and have those looked at for whom it is news."""
        wanted: dict[str, dict[str, ScaleRecommendation]] = {}
        for key, each in snapshots.items():
            elastic, job = elastics[key], self.scalable_jobs.get(each.job_uid)
            if job is None:
                continue  # it has ended while its size was planned
            verdict = plan.get(key) or SizeDecision(elastic.size, SizeReason.FIXED, FINISHING_MESSAGE)
            before = self._recommendations.for_job(each.job_uid).get(key.group)
            wish = self._recommendation(job, each, verdict, now)
            if wish is not before and wish.should_apply and verdict.size != elastic.size:
                self._scale_history.record_resize(key, verdict.size - elastic.size, now.timestamp())
                self.resize_counts[str(verdict.reason)] += 1
            wanted.setdefault(each.job_uid, {})[key.group] = wish
        for uid, wishes in wanted.items():
            job = self.scalable_jobs.get(uid)
            if self._recommendations.set_for_job(uid, wishes) and job is not None:
                self._on_recommendation(job)
        self._recommendations.retain_only(wanted)

    def _recommendation(
        self, job: Job, snapshot: GroupSnapshot, decision: SizeDecision, now: datetime
    ) -> ScaleRecommendation:
        group, uid = snapshot.elastic.key.group, snapshot.job_uid
        terms = RecommendationContext(
            at=now,
            observed_at=snapshot.observed_at,
            should_apply=not self._is_advisory(job),
            throughput_by_size=self._new_throughputs.pop((uid, group), {}),
        )
        return recommend_size(
            decision, self._engine_state(uid).group(group), self._recommendations.for_job(uid).get(group), terms
        )

    def _policy_name(self, job: Job) -> str:
        return job.autoscaling.policy or self._options.policy

    def _is_advisory(self, job: Job) -> bool:
        return self._options.is_advice_only or bool(job.autoscaling.is_advice_only)

    def _record_throughput(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Remember how fast a job is, if its size depends on that and it is clear on whose."""
        moving = [group.name for group in job.groups if is_autoscalable(group)]
        if self._policy_name(job) != THROUGHPUT_POLICY or len(moving) != 1:
            return
        if speeds := self._throughput_tracker.measure(job, moving[0], progress):
            self._new_throughputs[job.owner.uid, moving[0]] = speeds
            self._on_cluster_change(ClusterChange.CAPACITY)

    def _publish_disabled(self, job: Job) -> None:
        """Tell in the job's status that nobody plans, and why."""
        state, uid, now = self._engine_state(job.owner.uid), job.owner.uid, self._clock.now()
        terms = RecommendationContext(at=now, observed_at=None, should_apply=False, throughput_by_size={})
        wishes = {
            group.name: recommend_size(
                SizeDecision(size, SizeReason.FIXED, f"the autoscaler is off: {self._disabled_reason}"),
                state.group(group.name),
                self._recommendations.for_job(uid).get(group.name),
                terms,
            )
            for group in filter(is_autoscalable, job.groups)
            if (size := state.group(group.name).applied_size)
        }
        if wishes and self._recommendations.set_for_job(uid, wishes):
            self._on_recommendation(job)

    def _registered_job(self, job_uid: str) -> Job:
        job = self.scalable_jobs.get(job_uid)
        assert job is not None, "drawn, and not registered"
        return job

    def _engine_state(self, job_uid: str) -> EngineState:
        state = self._registered_job(job_uid).state
        assert state is not None, "registered before its first pass"
        return state


async def _plan_inline(planning_input: PlanningInput) -> SizePlan:
    return plan_sizes(planning_input)


ADVISORY_NOTE = "it is only advised"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningInput:
    """A cluster to be planned: plain values, for any thread to work on."""

    cluster: ClusterSnapshot
    default_policy: str
    """For groups that choose none."""
    policy_by_group: Mapping[GroupKey, str]
    """The policies of those that do."""
    advisory_groups: frozenset[GroupKey] = frozenset()
    """Groups that are told what would be right for them, and stay as they are."""

    @property
    def problem_size(self) -> int:
        """How much there is to plan."""
        return len(self.cluster.nodes) + len(self.cluster.groups)


def plan_sizes(planning_input: PlanningInput) -> SizePlan:
    """A verdict on every group; those that may be set are planned as if the others stayed, for so they will."""
    cluster = planning_input.cluster
    everybody = {each.key for each in cluster.groups}
    if not planning_input.advisory_groups or planning_input.advisory_groups >= everybody:
        return plan_with_policies(cluster, planning_input.policy_by_group, planning_input.default_policy)
    staying = replace(cluster, groups=tuple(_fix_advisory_groups(cluster.groups, planning_input.advisory_groups)))
    orders = plan_with_policies(staying, planning_input.policy_by_group, planning_input.default_policy)
    advice = plan_with_policies(cluster, planning_input.policy_by_group, planning_input.default_policy)
    return {key: (advice if key in planning_input.advisory_groups else orders)[key] for key in everybody}


def _fix_advisory_groups(
    groups: Iterable[ElasticGroup], advisory_groups: frozenset[GroupKey]
) -> Iterable[ElasticGroup]:
    for each in groups:
        yield replace(each, is_fixed=True, restriction_reason=ADVISORY_NOTE) if each.key in advisory_groups else each
