"""Jobs and services on a simulated cluster: how they come, get on, change their size and end."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from pliant.simulation.agenda import Agenda
from pliant.simulation.crews import Crew, JobRun, Pod, State
from pliant.simulation.delays import Delays
from pliant.simulation.machines import Machines
from pliant.simulation.pods import Pods
from pliant.simulation.tally import Tally
from pliant.simulation.trace import JobSpec, ServiceSpec, Trace


class World:
    """Everything that happens, as seconds go by."""

    def __init__(
        self,
        trace: Trace,
        delays: Delays,
        *,
        seed: int = 1,
        is_packed: bool = False,
        is_scaled: bool = True,
    ) -> None:
        self.agenda = Agenda()
        self.machines = Machines(trace.nodes, is_packed=is_packed)
        self.pods = Pods(self.machines, self.agenda, delays, Random(seed), self)
        self.tally = Tally(self.agenda, self.machines.total.get("cpu", 0))
        self.live: dict[JobRun, None] = {}
        """Jobs that have come and not ended, the oldest first."""
        self.jobs: list[JobRun] = []
        self.services: list[Crew] = []
        self.claimants: dict[Crew, None] = {}
        """Crews of fixed size that may have pods waiting."""
        self.on_news: Callable[[bool], None] = lambda is_urgent: None
        """Told that something has changed, and whether somebody cannot be placed."""
        self._is_scaled = is_scaled
        self._expected = len(trace.jobs)
        for spec in trace.jobs:
            self.agenda.at(spec.submit, self._submit, spec)
        for service in trace.services:
            self._announce(service)

    @property
    def is_over(self) -> bool:
        """Whether every job has come and ended."""
        return not self.live and len(self.jobs) == self._expected

    def _submit(self, spec: JobSpec) -> None:
        now = self.agenda.now
        size = spec.start if self._is_scaled else spec.fixed
        staff = [
            Crew(f"{spec.namespace}/{spec.name}/{group.name}", group.shape, self.machines.needs(group.shape),
                 priority=spec.priority, since=now)
            for group in spec.staff
        ]  # fmt: skip
        members = Crew(
            f"{spec.namespace}/{spec.name}", spec.shape, self.machines.needs(spec.shape),
            priority=spec.priority, since=now,
        )  # fmt: skip
        members.is_elastic = self._is_scaled and spec.most > spec.least
        job = JobRun(spec, members, staff, now)
        self.jobs.append(job)
        self.live[job] = None
        for crew in (*staff, members):
            crew.job = job
        for crew, group in zip(staff, spec.staff, strict=True):
            if group.number:
                self.pods.create(crew, group.number)
        if size:
            self.pods.create(members, size)
        self.on_news(True)

    def _announce(self, spec: ServiceSpec) -> None:
        crew = Crew(
            f"{spec.namespace}/{spec.name}", spec.shape, self.machines.needs(spec.shape),
            priority=spec.priority, since=spec.steps[0][0],
        )  # fmt: skip
        self.services.append(crew)
        for time, number in spec.steps:
            self.agenda.at(time, self._set_service, (crew, number))

    def _set_service(self, order: tuple[Crew, int]) -> None:
        crew, number = order
        more = number - len(crew.pods)
        if more > 0:
            self.pods.create(crew, more)
        elif more < 0:
            # Those that never ran go first, then the youngest, as a ReplicaSet does it.
            by_worth = sorted(crew.pods, key=lambda pod: (pod.state is State.WAITING, pod.order), reverse=True)
            self.pods.remove(crew, by_worth[:-more])
        self.on_news(False)

    def resize(self, job: JobRun, size: int) -> None:
        """Give a job another size: those with the highest index go first."""
        members = job.members
        more = size - len(members.pods)
        job.elastic = None
        job.resizes += 1
        if job.spec.pause:
            job.paused_until = self.agenda.now + job.spec.pause
        if more > 0:
            self.pods.create(members, more)
        elif more < 0:
            self.pods.remove(members, members.pods[more:])
        self._advance(job)
        if job.spec.pause:
            self.agenda.at(job.paused_until, self._wake, job)

    def _wake(self, job: JobRun) -> None:
        if job.ended_at is None:
            self._advance(job)

    def crew_changed(self, crew: Crew) -> None:
        """Another number of its pods run, or they have other places."""
        job = crew.job
        if job is not None and job.ended_at is None:
            if crew is job.members:
                job.elastic = None
                if job.started_at is None and crew.running:
                    job.started_at = self.agenda.now
            self._advance(job)
        self.on_news(False)

    def pod_turned_away(self, crew: Crew) -> None:
        """Some of its pods fit nowhere."""
        if not crew.is_elastic:
            self.claimants[crew] = None
        self.on_news(True)

    def used_changed(self, cpu: int) -> None:
        """Pods of so much CPU began to run, or are gone."""
        self.tally.use(cpu)
        self.on_news(False)

    def pod_started(self, pod: Pod) -> None:
        """One more runs."""
        if pod.crew.job is None:
            self.tally.served(self.agenda.now - pod.born)

    def _advance(self, job: JobRun) -> None:
        """Reckon with what a job has done so far, and how fast it is from now on."""
        now = self.agenda.now
        job.work_left -= job.rate * (now - job.updated_at)
        is_paused = now < job.paused_until
        rate = job.spec.speed.at(job.members.running) if job.works and not is_paused else 0.0
        job.updated_at = now
        if rate == job.rate and job.version:
            return
        job.rate = rate
        job.version += 1
        if rate and job.work_left < math.inf:
            self.agenda.at(now + max(job.work_left, 0.0) / rate, self._finish, (job, job.version))

    def _finish(self, due: tuple[JobRun, int]) -> None:
        job, version = due
        if job.version != version or job.ended_at is not None:
            return
        job.ended_at = self.agenda.now
        job.work_left, job.rate = 0.0, 0.0
        del self.live[job]
        for crew in (*job.staff, job.members):
            self.claimants.pop(crew, None)
            self.pods.remove(crew, crew.pods)
        self.on_news(False)
