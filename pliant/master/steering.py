"""The master's loop: looks at pods and plans, decides, and asks the operator for one thing at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pliant.errors import AlreadyExists, ApiError, InvalidSpec, Unreachable
from pliant.frontends.scaleplan import owner_job
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS
from pliant.master.brain.deciding import next_step, noticed
from pliant.master.brain.memory import Memory, remembered
from pliant.master.brain.noting import sighted
from pliant.master.brain.tempo import Tempo
from pliant.master.facts import job_facts
from pliant.master.model import End, JobFacts, Node, NodeKey, Picture, Step
from pliant.master.planning import (
    ELASTIC_JOBS,
    SCALE_PLANS,
    is_open,
    is_shown,
    message_of,
    next_number,
    phase_of,
    plan_of,
)
from pliant.master.service import Service
from pliant.master.watching import JOB, members, place_in
from pliant.runtime.backoff import Backoff
from pliant.runtime.clock import Clock

LOOK = 1.0
"""Seconds between two looks when nothing happens."""
GATHER = 0.2
"""What happens within so many seconds is looked at together: machines take many members with them."""
SHOWN = timedelta(seconds=5)
"""How long pods may take to be seen once their plan is carried out."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A plan that the operator was asked to carry out."""

    name: str
    step: Step
    before: Memory
    """What was known before, in case nothing comes of it."""
    at: datetime
    is_certain: bool = True
    """Whether the server has said that it has the plan."""


class Helm:
    """Steers one job until it ends."""

    def __init__(self, client: KubeClient, job: JobFacts, service: Service, clock: Clock, tempo: Tempo) -> None:
        self._client, self._job, self._service = client, job, service
        self._clock, self._tempo = clock, tempo
        self._news = asyncio.Event()
        self._arrivals: dict[NodeKey, int] = {}
        self._sent: Sent | None = None
        self._failures = 0
        self._not_before: datetime | None = None
        self._problem = ""
        self.memory: Memory = remembered(service.brain.get("memory") or {})
        labels = f"{JOB}={job.name}"
        self._pods = Informer(
            client, PODS, Pod, namespace=job.namespace, labels=labels, on_change=self._notice_pod
        )
        self._plans: Informer[Any] = Informer(
            client, SCALE_PLANS, dict, namespace=job.namespace, labels=labels, on_change=self._notice
        )
        only = f"metadata.name={job.name}"
        self._jobs: Informer[Any] = Informer(
            client, ELASTIC_JOBS, dict, namespace=job.namespace, fields=only, on_change=self._notice
        )

    async def run(self) -> End:
        """Steer until the job is over as far as its members are concerned."""
        informers = (self._pods, self._plans, self._jobs)
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            for informer in informers:
                await informer.wait_synced()
            while True:
                end = await self._look()
                if end is not None:
                    return end
                await self._wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _notice(self, old: object, new: object) -> None:
        self._news.set()

    def _notice_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Take down who comes: they may be gone before the next look."""
        self._news.set()
        if old is None and new is not None and new.metadata.deletion_timestamp is None:
            place = place_in(new) if self._is_ours(new) else None
            if place is not None:
                self._arrivals[place[0]] = place[1]

    def _is_ours(self, pod: Pod) -> bool:
        """Whether a pod belongs to this job: anybody may write labels."""
        return any(ref.uid == self._job.uid for ref in pod.metadata.owner_references)

    async def _wait(self) -> None:
        """Until something has happened and come to rest, or for a while."""
        try:
            async with asyncio.timeout(LOOK):
                await self._news.wait()
        except TimeoutError:
            return
        for _ in range(3):
            self._news.clear()
            await asyncio.sleep(GATHER)
            if not self._news.is_set():
                return

    async def _look(self) -> End | None:
        now = self._clock.now()
        self._news.clear()
        is_there = self._read_job()
        pods = [pod for pod in self._pods.store.all() if self._is_ours(pod)]
        nodes = members(pods, self._service.beats(), now)
        self._service.set_members(nodes)
        arrivals, self._arrivals = self._arrivals, {}
        if arrivals:
            self.memory = sighted(self.memory, arrivals)
        picture = self._picture(nodes, now)
        self._remember(noticed(picture, self.memory, self._tempo))
        if not is_there or self._is_busy(now):
            return None
        answer, memory = next_step(picture, self.memory, self._tempo)
        if isinstance(answer, Step):
            await self._send(answer, memory, now)
            return None
        self._remember(memory)
        return answer

    def _read_job(self) -> bool:
        """Look at the job; whether it is there: when it goes, its members do, and so do we."""
        raw = self._jobs.store.get(self._job.namespace, self._job.name)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            return False
        try:
            self._job, self._problem = job_facts(raw), ""
        except InvalidSpec as problem:
            if str(problem) != self._problem:
                self._problem = str(problem)
                log.warning("job cannot be read: going on as before", extra={"because": self._problem})
        return True

    def _picture(self, nodes: tuple[Node, ...], now: datetime) -> Picture:
        service = self._service
        return Picture(
            now=now,
            job=self._job,
            nodes=nodes,
            speeds=service.speeds(),
            work_left=service.work_left(),
            is_work_done=service.is_work_done(),
        )

    def _is_busy(self, now: datetime) -> bool:
        """Whether a plan is under way, or the last one failed just now."""
        plans = {plan["metadata"]["name"]: plan for plan in self._plans.store.all()}
        if self._sent is not None and self._is_under_way(self._sent, plans.get(self._sent.name), now):
            return True
        if self._not_before is not None and now < self._not_before:
            return True
        # Plans of a master before this one: the operator carries them out, or clears them away.
        own = (plan for plan in plans.values() if owner_job(plan) == self._job.name)
        return any(_is_automatic(plan) and is_open(plan) for plan in own)

    def _is_under_way(self, sent: Sent, plan: dict[str, Any] | None, now: datetime) -> bool:
        if plan is None and not sent.is_certain:
            if now - sent.at < SHOWN:
                return True
            self.memory, self._sent = sent.before, None  # it never arrived
            return False
        if plan is not None and phase_of(plan) == "Failed":
            self._give_up(sent, message_of(plan), now)
            return True
        shown = is_shown(sent.step, self.memory.members)
        if (plan is not None and is_open(plan)) or (not shown and now - sent.at < SHOWN):
            return True
        log.info("plan carried out", extra={"plan": sent.name})
        self._sent, self._failures, self._not_before = None, 0, None
        return False

    async def _send(self, step: Step, memory: Memory, now: datetime) -> None:
        """Ask for a step; what was decided is remembered once the server has it."""
        names = [plan["metadata"]["name"] for plan in self._plans.store.all()]
        number = next_number(self._job.name, names, int(self._service.brain.get("plans") or 0))
        name = f"{self._job.name}-scaleplan-{number}"
        sent = Sent(name=name, step=step, before=self.memory, at=now)
        try:
            made = await self._client.create(SCALE_PLANS, self._job.namespace, plan_of(self._job, step, name))
            self._plans.store.note_written(made)
        except AlreadyExists:
            self._service.brain = {**self._service.brain, "plans": number + 1}
            self._news.set()
            return
        except Unreachable as problem:
            log.warning("plan sent, no answer", extra={"plan": name, "because": str(problem)})
            sent = Sent(name=name, step=step, before=self.memory, at=now, is_certain=False)
        except ApiError as problem:
            self._give_up(sent, str(problem), now)
            return
        log.info("step", extra={"plan": name, "stage": str(step.stage), "because": step.reason})
        self._sent = sent
        self._service.brain = {**self._service.brain, "plans": number + 1}
        self._remember(memory)

    def _give_up(self, sent: Sent, why: str, now: datetime) -> None:
        """Forget what a plan was to bring about, and try again later."""
        self._failures += 1
        wait = Backoff(first=timedelta(seconds=2), longest=timedelta(minutes=5)).wait(
            self._failures, random.Random()
        )
        log.warning(
            "plan failed", extra={"plan": sent.name, "because": why, "again_in": f"{wait.total_seconds():.0f} s"}
        )
        self._sent, self._not_before = None, now + wait
        self._remember(sent.before)

    def _remember(self, memory: Memory) -> None:
        self.memory = memory
        if memory.ps_hosts:
            self._service.set_ps(memory.ps_version, memory.ps_hosts)
        saved = {**self._service.brain, "memory": memory.saved()}
        if saved != self._service.brain:
            self._service.brain = saved
            self._service.remember()


def _is_automatic(plan: dict[str, Any]) -> bool:
    return bool((plan["metadata"].get("labels") or {}).get("scale-type") == "auto")
