"""The autoscaler of a simulated cluster: takes a snapshot, runs the policy, applies its plan.

Policies and cooldowns are the operator's own code. The timing is the operator's, too: one round soon after pods are
unschedulable, otherwise one every few seconds, and none while nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pliant.autoscale.cooldowns import ResizeCooldowns, next_cooldown_end, with_cooldown_restrictions
from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, NodeResources, PendingPods, Policy
from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.workloads import SimulatedJob

MAX_FIRST_ROUND_DELAY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAutoscalerSettings:
    period: float = 5.0  # the interval between rounds while the cluster changes
    urgent_period: float = 1.0  # the interval while pods are unschedulable
    cooldowns: ResizeCooldowns | None = field(default_factory=ResizeCooldowns)
    """None to resize whenever the policy says so."""
    counts_terminating_pods: bool = (
        False  # whether terminating pods count as using capacity, even while pods are pending
    )
    max_load: float = 0.97


class SimulatedAutoscaler:
    def __init__(
        self,
        cluster: SimulatedCluster,
        policy: Policy,
        timing: SimulatedAutoscalerSettings,
        stopwatch: Callable[[], float],
    ) -> None:
        self.round_count = 0
        self.planning_seconds = 0.0  # the time spent planning, by the stopwatch
        self.resize_counts: dict[str, int] = {}  # resizes by reason
        self._cluster = cluster
        self._policy = policy
        self._timing = timing
        self._stopwatch = stopwatch
        self._next_round_at = math.inf
        self._last_round_at = -math.inf
        nodes = cluster.nodes
        self._nodes = [
            NodeResources(name=name, allocatable=allocatable)
            for name, allocatable in zip(nodes.node_names, nodes.allocatable, strict=True)
        ]
        cluster.on_change = self.on_cluster_change

    def on_cluster_change(self, is_urgent: bool) -> None:
        wait = self._timing.urgent_period if is_urgent else self._timing.period
        now = self._cluster.event_queue.now
        # After a quiet period the scheduler must try new pods first, to find out whether they fit.
        first_delay = min(self._timing.urgent_period, MAX_FIRST_ROUND_DELAY_SECONDS)
        self._schedule_round(max(self._last_round_at + wait, now + first_delay))

    def _schedule_round(self, due: float) -> None:
        if due < self._next_round_at:
            self._next_round_at = due
            self._cluster.event_queue.schedule(due, self._start_round, due)

    def _start_round(self, due: float) -> None:
        if due == self._next_round_at:
            self._next_round_at = math.inf
            self._last_round_at = self._cluster.event_queue.now
            self._run_round()

    def _run_round(self) -> None:
        jobs = {job.key: job for job in self._cluster.live_jobs if job.replicas.is_elastic}
        if not jobs:
            return
        self.round_count += 1
        started = self._stopwatch()
        plan = self._policy.plan(self._cluster_snapshot(list(jobs.values())))
        self.planning_seconds += self._stopwatch() - started
        now = self._cluster.event_queue.now
        for key, decision in plan.items():
            job = jobs[key]
            delta = decision.size - len(job.replicas.pods)
            if delta:
                job.history = job.history.with_resize(delta, now)
                self.resize_counts[decision.reason.value] = self.resize_counts.get(decision.reason.value, 0) + 1
                self._cluster.resize_job(job, decision.size)
        self._schedule_next_cooldown(jobs.values())

    def _schedule_next_cooldown(self, jobs: Iterable[SimulatedJob]) -> None:
        """Schedule a round for when the next cooldown ends."""
        cooldowns, now = self._timing.cooldowns, self._cluster.event_queue.now
        if cooldowns is None:
            return
        times = (next_cooldown_end(job.history, now, cooldowns) for job in jobs)
        soonest = min((time for time in times if time is not None), default=math.inf)
        if soonest < math.inf:
            self._schedule_round(max(soonest, now + self._timing.urgent_period))

    def _cluster_snapshot(self, jobs: list[SimulatedJob]) -> ClusterSnapshot:
        return ClusterSnapshot(
            nodes=self._updated_nodes(),
            groups=tuple(self._group_with_cooldowns(job) for job in jobs),
            pending_pods=tuple(self._pending_pods()),
            max_load=self._timing.max_load,
        )

    def _updated_nodes(self) -> tuple[NodeResources, ...]:
        nodes, pods = self._cluster.nodes, self._cluster.pods
        # Terminating pods make room for pending ones: no group has to shrink for those.
        terminating = pods.terminating_usage if pods.pending_count and not self._timing.counts_terminating_pods else {}
        zeros = [0] * len(nodes.resources)
        for node in sorted(pods.changed_nodes):
            free, elastic, freed = nodes.free[node], pods.elastic_usage[node], terminating.get(node, zeros)
            allocatable = nodes.allocatable[node]
            amounts = zip(nodes.resources, free, elastic, freed, strict=True)
            used = {name: amount for name, *parts in amounts if (amount := allocatable.get(name, 0) - sum(parts))}
            self._nodes[node] = NodeResources(name=nodes.node_names[node], allocatable=allocatable, used_by_others=used)
        pods.changed_nodes.clear()
        pods.changed_nodes.update(pods.terminating_usage)  # pods may become pending without a change on these nodes
        return tuple(self._nodes)

    def _group_with_cooldowns(self, job: SimulatedJob) -> ElasticGroup:
        now, cooldowns = self._cluster.event_queue.now, self._timing.cooldowns
        size = job.replicas.running_count
        if job.replicas.is_fully_running and job.work_rate and job.throughputs.get(size) != job.work_rate:
            job.throughputs[size] = job.work_rate
            job.elastic_group = None
        elastic = job.elastic_group = job.elastic_group or self._elastic_group(job)
        if cooldowns is None:
            return elastic
        job.history = job.history.with_observation(
            elastic, is_fully_running=job.replicas.is_fully_running, is_finishing=False, now=now
        )
        return with_cooldown_restrictions(elastic, job.history, now, cooldowns)

    def _elastic_group(self, job: SimulatedJob) -> ElasticGroup:
        names = self._cluster.nodes.node_names
        return ElasticGroup(
            key=job.key,
            min_size=job.spec.min_size,
            max_size=job.spec.max_size,
            size=len(job.replicas.pods),
            shape=job.replicas.shape,
            replica_nodes=tuple(names[pod.node] if pod.node >= 0 else "" for pod in job.replicas.pods),
            priority=job.spec.priority,
            created_at=job.spec.submitted_at,
            throughputs=tuple(sorted(job.throughputs.items())),
        )

    def _pending_pods(self) -> list[PendingPods]:
        pod_sets = self._cluster.pending_pod_sets
        for pod_set in [pod_set for pod_set in pod_sets if not pod_set.pending_count]:
            del pod_sets[pod_set]
        return [
            PendingPods(
                key=each.key,
                shape=each.shape,
                count=each.pending_count,
                priority=each.priority,
                created_at=each.created_at,
            )
            for each in pod_sets
        ]
