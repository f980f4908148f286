"""The autoscaler of a simulated cluster: draws the picture, asks the policy, carries its plan out.

Policies and pacing are the very code of the operator. Rounds are its own, too: one soon after somebody cannot be
placed, otherwise every few seconds, and none while nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pliant.autoscale.cooldowns import ResizeCooldowns, next_cooldown_end, with_cooldowns
from pliant.autoscale.model import ClusterSnapshot, ElasticGroup, NodeResources, PendingPods, Policy
from pliant.simulation.cluster import SimulatedCluster
from pliant.simulation.workloads import SimulatedJob

MAX_FIRST_ROUND_DELAY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerTiming:
    """When there are rounds, in seconds."""

    period: float = 5.0
    """From one round to the next while things change."""
    urgent_period: float = 1.0
    """The same when somebody cannot be placed."""
    cooldowns: ResizeCooldowns | None = field(default_factory=ResizeCooldowns)
    """How often one group may change; None for whenever the policy says so."""
    counts_terminating: bool = False
    """Whether pods that leave count as taking up room, also when others wait for it."""
    max_load: float = 0.97


class SimulatedAutoscaler:
    """Looks at a world and resizes its jobs."""

    def __init__(
        self, cluster: SimulatedCluster, policy: Policy, timing: AutoscalerTiming, stopwatch: Callable[[], float]
    ) -> None:
        self.round_count = 0
        self.planning_seconds = 0.0
        """What planning took, by the stopwatch."""
        self.resize_counts: dict[str, int] = {}
        """How often a size was changed, by the kind of reason."""
        self._cluster = cluster
        self._policy = policy
        self._timing = timing
        self._stopwatch = stopwatch
        self._next_round_at = math.inf
        self._last_round_at = -math.inf
        machines = cluster.nodes
        self._nodes = [
            NodeResources(name=name, allocatable=room)
            for name, room in zip(machines.node_names, machines.allocatable, strict=True)
        ]
        cluster.on_change = self.on_cluster_change

    def on_cluster_change(self, is_urgent: bool) -> None:
        """Something has changed: there must be a round, and soon if somebody cannot be placed."""
        wait = self._timing.urgent_period if is_urgent else self._timing.period
        now = self._cluster.event_queue.now
        # After a quiet time the first newcomer's pods must be looked at before it is known whether they fit.
        self._schedule_round(
            max(self._last_round_at + wait, now + min(self._timing.urgent_period, MAX_FIRST_ROUND_DELAY))
        )

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
        """One round."""
        jobs = {job.key: job for job in self._cluster.live_jobs if job.replicas.is_elastic}
        if not jobs:
            return
        self.round_count += 1
        begun = self._stopwatch()
        plan = self._policy.plan(self._cluster_snapshot(list(jobs.values())))
        self.planning_seconds += self._stopwatch() - begun
        now = self._cluster.event_queue.now
        for key, verdict in plan.items():
            job = jobs[key]
            by = verdict.size - len(job.replicas.pods)
            if by:
                job.history = job.history.with_resize(by, now)
                self.resize_counts[verdict.reason.value] = self.resize_counts.get(verdict.reason.value, 0) + 1
                self._cluster.resize_job(job, verdict.size)
        self._schedule_next_cooldown(jobs.values())

    def _schedule_next_cooldown(self, jobs: Iterable[SimulatedJob]) -> None:
        """Wake when pacing alone lets a group do something else."""
        pace, now = self._timing.cooldowns, self._cluster.event_queue.now
        if pace is None:
            return
        looks = (next_cooldown_end(job.history, now, pace) for job in jobs)
        soonest = min((look for look in looks if look is not None), default=math.inf)
        if soonest < math.inf:
            self._schedule_round(max(soonest, now + self._timing.urgent_period))

    def _cluster_snapshot(self, jobs: list[SimulatedJob]) -> ClusterSnapshot:
        return ClusterSnapshot(
            nodes=self._updated_nodes(),
            groups=tuple(self._paced_group(job) for job in jobs),
            pending_pods=tuple(self._pending_pods()),
            max_load=self._timing.max_load,
        )

    def _updated_nodes(self) -> tuple[NodeResources, ...]:
        machines, pods = self._cluster.nodes, self._cluster.pods
        # Who is leaving makes room for those who wait: nobody else has to go on their account.
        lingering = pods.terminating_usage if pods.pending_count and not self._timing.counts_terminating else {}
        nothing = [0] * len(machines.resources)
        for node in sorted(pods.changed_nodes):
            free, elastic, spared = machines.free[node], pods.elastic_usage[node], lingering.get(node, nothing)
            room = machines.allocatable[node]
            left = zip(machines.resources, free, elastic, spared, strict=True)
            taken = {name: there for name, *parts in left if (there := room.get(name, 0) - sum(parts))}
            self._nodes[node] = NodeResources(name=machines.node_names[node], allocatable=room, used_by_others=taken)
        pods.changed_nodes.clear()
        pods.changed_nodes.update(pods.terminating_usage)  # somebody may come to wait while nothing changes on them
        return tuple(self._nodes)

    def _paced_group(self, job: SimulatedJob) -> ElasticGroup:
        now, pace = self._cluster.event_queue.now, self._timing.cooldowns
        size = job.replicas.running_count
        if job.replicas.is_fully_running and job.work_rate and job.throughputs.get(size) != job.work_rate:
            job.throughputs[size] = job.work_rate
            job.elastic_group = None
        elastic = job.elastic_group = job.elastic_group or self._elastic_group(job)
        if pace is None:
            return elastic
        job.history = job.history.with_observation(
            elastic, is_fully_running=job.replicas.is_fully_running, is_finishing=False, now=now
        )
        return with_cooldowns(elastic, job.history, now, pace)

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
        claimants = self._cluster.pending_pod_sets
        for crew in [crew for crew in claimants if not crew.pending_count]:
            del claimants[crew]
        return [
            PendingPods(
                key=crew.key,
                shape=crew.shape,
                count=crew.pending_count,
                priority=crew.priority,
                created_at=crew.created_at,
            )
            for crew in claimants
        ]
