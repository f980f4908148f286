"""The autoscaler of a simulated cluster: draws the picture, asks the policy, carries its plan out.

Policies and pacing are the very code of the operator. Rounds are its own, too: one soon after somebody cannot be
placed, otherwise every few seconds, and none while nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pliant.autoscale.model import Claim, Cluster, Elastic, Node, Policy
from pliant.autoscale.pacing import Pace, next_look, paced
from pliant.simulation.crews import JobRun
from pliant.simulation.world import World

LULL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """When there are rounds, in seconds."""

    period: float = 5.0
    """From one round to the next while things change."""
    gap: float = 1.0
    """The same when somebody cannot be placed."""
    pace: Pace | None = field(default_factory=Pace)
    """How often one group may change; None for whenever the policy says so."""
    counts_leaving: bool = False
    """Whether pods that leave count as taking up room, also when others wait for it."""
    load: float = 0.97


class Rounds:
    """Looks at a world and resizes its jobs."""

    def __init__(self, world: World, policy: Policy, rhythm: Rhythm, stopwatch: Callable[[], float]) -> None:
        self.number = 0
        self.seconds = 0.0
        """What planning took, by the stopwatch."""
        self.resizes: dict[str, int] = {}
        """How often a size was changed, by the kind of reason."""
        self._world = world
        self._policy = policy
        self._rhythm = rhythm
        self._stopwatch = stopwatch
        self._due = math.inf
        self._last = -math.inf
        machines = world.machines
        self._nodes = [
            Node(name=name, room=room) for name, room in zip(machines.names, machines.rooms, strict=True)
        ]
        world.on_news = self.hear

    def hear(self, is_urgent: bool) -> None:
        """Something has changed: there must be a round, and soon if somebody cannot be placed."""
        wait = self._rhythm.gap if is_urgent else self._rhythm.period
        now = self._world.agenda.now
        # After a quiet time the first newcomer's pods must be looked at before it is known whether they fit.
        self._set_alarm(max(self._last + wait, now + min(self._rhythm.gap, LULL)))

    def _set_alarm(self, due: float) -> None:
        if due < self._due:
            self._due = due
            self._world.agenda.at(due, self._ring, due)

    def _ring(self, due: float) -> None:
        if due == self._due:
            self._due = math.inf
            self._last = self._world.agenda.now
            self._hold()

    def _hold(self) -> None:
        """One round."""
        jobs = {job.key: job for job in self._world.live if job.members.is_elastic}
        if not jobs:
            return
        self.number += 1
        begun = self._stopwatch()
        plan = self._policy.plan(self._picture(list(jobs.values())))
        self.seconds += self._stopwatch() - begun
        now = self._world.agenda.now
        for key, verdict in plan.items():
            job = jobs[key]
            by = verdict.size - len(job.members.pods)
            if by:
                job.history = job.history.resized(by, now)
                self.resizes[verdict.code.value] = self.resizes.get(verdict.code.value, 0) + 1
                self._world.resize(job, verdict.size)
        self._look_out(jobs.values())

    def _look_out(self, jobs: Iterable[JobRun]) -> None:
        """Wake when pacing alone lets a group do something else."""
        pace, now = self._rhythm.pace, self._world.agenda.now
        if pace is None:
            return
        looks = (next_look(job.history, now, pace) for job in jobs)
        soonest = min((look for look in looks if look is not None), default=math.inf)
        if soonest < math.inf:
            self._set_alarm(max(soonest, now + self._rhythm.gap))

    def _picture(self, jobs: list[JobRun]) -> Cluster:
        return Cluster(
            nodes=self._fresh_nodes(),
            elastics=tuple(self._elastic(job) for job in jobs),
            claims=tuple(self._claims()),
            load=self._rhythm.load,
        )

    def _fresh_nodes(self) -> tuple[Node, ...]:
        machines, pods = self._world.machines, self._world.pods
        # Who is leaving makes room for those who wait: nobody else has to go on their account.
        lingering = pods.lingering if pods.waiting and not self._rhythm.counts_leaving else {}
        nothing = [0] * len(machines.resources)
        for node in sorted(pods.touched):
            free, elastic, spared = machines.free[node], pods.elastic[node], lingering.get(node, nothing)
            room = machines.rooms[node]
            left = zip(machines.resources, free, elastic, spared, strict=True)
            taken = {name: there for name, *parts in left if (there := room.get(name, 0) - sum(parts))}
            self._nodes[node] = Node(name=machines.names[node], room=room, taken=taken)
        pods.touched.clear()
        pods.touched.update(pods.lingering)  # somebody may come to wait while nothing changes on them
        return tuple(self._nodes)

    def _elastic(self, job: JobRun) -> Elastic:
        now, pace = self._world.agenda.now, self._rhythm.pace
        size = job.members.running
        if job.members.is_up and job.rate and job.speeds.get(size) != job.rate:
            job.speeds[size] = job.rate
            job.elastic = None
        elastic = job.elastic = job.elastic or self._drawn(job)
        if pace is None:
            return elastic
        job.history = job.history.seen(elastic, is_up=job.members.is_up, is_ending=False, now=now)
        return paced(elastic, job.history, now, pace)

    def _drawn(self, job: JobRun) -> Elastic:
        names = self._world.machines.names
        return Elastic(
            key=job.key,
            least=job.spec.least,
            most=job.spec.most,
            size=len(job.members.pods),
            shape=job.members.shape,
            places=tuple(names[pod.node] if pod.node >= 0 else "" for pod in job.members.pods),
            priority=job.spec.priority,
            since=job.spec.submit,
            speeds=tuple(sorted(job.speeds.items())),
        )

    def _claims(self) -> list[Claim]:
        claimants = self._world.claimants
        for crew in [crew for crew in claimants if not crew.waiting]:
            del claimants[crew]
        return [
            Claim(key=crew.key, shape=crew.shape, number=crew.waiting, priority=crew.priority, since=crew.since)
            for crew in claimants
        ]
