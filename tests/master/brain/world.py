"""A cluster that is only reckoned with: carries out the brain's steps, second by second."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median

from pliant.master.brain.decide import decide_next_action
from pliant.master.brain.state import BrainState
from pliant.master.brain.timing import BrainTiming
from pliant.master.model import (
    MIB,
    Heartbeat,
    JobCompletion,
    JobMember,
    JobSnapshot,
    MasterJobSpec,
    MasterRoleSpec,
    MemberKey,
    MemberStatus,
    PodResources,
    ScaleAction,
)

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
START_SECONDS = 2
WINDOW = 5
"""Speeds are measured over so many seconds."""


def roles(*specs: MasterRoleSpec) -> dict[str, MasterRoleSpec]:
    return {spec.type: spec for spec in specs}


def job(
    *specs: MasterRoleSpec, strategy: str = "AllreduceStrategy", limits: PodResources | None = None
) -> MasterJobSpec:
    return MasterJobSpec(
        namespace="default",
        name="job",
        uid="u",
        strategy=strategy,
        resource_limits=limits or PodResources(),
        roles=roles(*(specs or (MasterRoleSpec(type="worker"),))),
    )


@dataclass
class World:
    """The job's pods, how fast they are, and what the brain made of it."""

    facts: MasterJobSpec = field(default_factory=job)
    speed: Callable[[int], float] = lambda size: 10.0 * size
    noise: float = 0.0
    seed: int = 0
    room: int = 1000
    """How many pods machines take."""
    cores: float = 1000.0
    """How much CPU they have."""
    tempo: BrainTiming = field(default_factory=BrainTiming)
    now: datetime = BEGIN
    memory: BrainState = field(default_factory=BrainState)
    nodes: dict[MemberKey, JobMember] = field(default_factory=dict)
    steps: list[ScaleAction] = field(default_factory=list)
    end: JobCompletion | None = None
    windows: dict[int, list[float]] = field(default_factory=dict)
    used: PodResources = field(default_factory=lambda: PodResources(cpu=0.4, memory=200 * MIB))
    learned: dict[MemberKey, float] = field(default_factory=dict)
    silent: set[MemberKey] = field(default_factory=set)
    slow: dict[MemberKey, float] = field(default_factory=dict)
    work_left: int | None = None
    is_work_done: bool = False
    ps_version: int = 0
    pace: int = 1
    """Seconds between two looks."""

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._since = self.now
        self._crew: frozenset[MemberKey] = frozenset()

    @property
    def picture(self) -> JobSnapshot:
        return JobSnapshot(
            now=self.now,
            job=self.facts,
            members=tuple(self.nodes.values()),
            speed_by_worker_count={size: median(seen) for size, seen in self.windows.items()},
            unassigned_shard_count=self.work_left,
            are_shards_done=self.is_work_done,
        )

    def live(self, type_: str = "worker") -> list[JobMember]:
        there = (MemberStatus.PENDING, MemberStatus.RUNNING)
        found = [node for node in self.nodes.values() if node.key.type == type_ and node.status in there]
        return sorted(found, key=lambda node: (node.rank, node.key.id))

    def run(self, seconds: int, *, until: Callable[[], bool] | None = None) -> World:
        """Let time pass, a step being decided upon each second."""
        for _ in range(seconds):
            if self.end is not None or (until is not None and until()):
                break
            self._tick()
            self.decide()
            self.now += timedelta(seconds=self.pace)
        return self

    def decide(self) -> ScaleAction | JobCompletion | None:
        """One decision, carried out at once."""
        answer, self.memory = decide_next_action(self.picture, self.memory, self.tempo)
        if isinstance(answer, ScaleAction):
            self.steps.append(answer)
            self._carry_out(answer)
        elif isinstance(answer, JobCompletion):
            self.end = answer
        return answer

    def stop(self, keys: Iterable[MemberKey], **ending: object) -> None:
        """Let members end in some way."""
        for key in keys:
            changes = {"status": MemberStatus.FAILED, "ended_at": self.now, **ending}
            self.nodes[key] = replace(self.nodes[key], **changes)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Let everybody be done."""
        self.stop([node.key for node in self.live()], status=MemberStatus.SUCCEEDED, exit_code=0)

    def _tick(self) -> None:
        running = 0
        for key, node in list(self.nodes.items()):
            is_due = self.now - node.created_at >= timedelta(seconds=START_SECONDS)
            if node.status is MemberStatus.PENDING and is_due and self._fits(node):
                address = f"10.0.0.{key.id}:2222"
                node = replace(node, status=MemberStatus.RUNNING, started_at=self.now, address=address)
            if node.status is MemberStatus.RUNNING:
                running += key.type == "worker"
                if key not in self.silent:
                    node = replace(node, heartbeat=self._beat(key))
            self.nodes[key] = node
        self._measure(running)

    def _fits(self, node: JobMember) -> bool:
        running = [each for each in self.nodes.values() if each.status is MemberStatus.RUNNING]
        taken = sum(each.resources.cpu or 0.0 for each in running)
        return len(running) < self.room and taken + (node.resources.cpu or 0.0) <= self.cores + 1e-6

    def _beat(self, key: MemberKey) -> Heartbeat:
        self.learned[key] = self.learned.get(key, 0.0) + self.slow.get(key, 10.0)
        done = self.learned[key]
        cpu, memory = self.used.cpu, self.used.memory
        return Heartbeat(at=self.now, step=int(done), samples=done, cpu=cpu, memory=memory, ps_version=self.ps_version)

    def _measure(self, running: int) -> None:
        crew = frozenset(node.key for node in self.nodes.values() if node.status is MemberStatus.RUNNING)
        if crew != self._crew:
            self._crew, self._since = crew, self.now
        passed = int((self.now - self._since).total_seconds())
        if running and passed >= WINDOW and passed % WINDOW == 0:
            speed = self.speed(running) * (1 + self._chance.gauss(0, self.noise))
            self.windows.setdefault(running, []).append(speed)

    def _carry_out(self, step: ScaleAction) -> None:
        for key in step.remove_members:
            self.nodes.pop(key, None)
        for pod in (*step.create_pods, *step.migrate_pods):
            if pod in step.migrate_pods:
                for node in list(self.nodes.values()):
                    if node.key.type == pod.key.type and node.rank == pod.rank:
                        del self.nodes[node.key]
            assert pod.key not in self.nodes
            self._make(pod.key, pod.rank, pod.resources)
        for type_, wanted in step.sizing_by_type.items():
            ranks = {node.rank for node in self.live(type_)}
            ids = [key.id for key in self.nodes if key.type == type_]
            free = (rank for rank in range(wanted.replicas + len(ranks) + 1) if rank not in ranks)
            for offset in range(wanted.replicas - len(ranks)):
                number = max(ids, default=-1) + 1 + offset
                self._make(MemberKey(type_, number), next(free), wanted.resources)

    def _make(self, key: MemberKey, rank: int, resources: PodResources) -> None:
        self.nodes[key] = JobMember(
            key=key,
            rank=rank,
            pod_name=f"job-edljob-{key}",
            status=MemberStatus.PENDING,
            resources=resources,
            created_at=self.now,
        )
