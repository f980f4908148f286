"""Plans sizes whenever the cluster has changed, and leaves them as wishes for the jobs' own passes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pliant.autoscale.model import Code, Elastic, GroupKey, Plan, Verdict
from pliant.controllers.autoscale import picture
from pliant.controllers.autoscale.chronicle import Chronicle
from pliant.controllers.autoscale.ledger import News
from pliant.controllers.autoscale.options import Options
from pliant.controllers.autoscale.picture import Drawn
from pliant.controllers.autoscale.planning import Sketch, plan
from pliant.controllers.autoscale.register import Register, may_move
from pliant.controllers.autoscale.sources import Sources
from pliant.controllers.autoscale.speeds import Speedometer
from pliant.controllers.autoscale.wording import Terms, ordered, wish_for
from pliant.controllers.wishes import Wishes
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Node
from pliant.model.job import Job, JobKey
from pliant.model.observed import Wish
from pliant.model.state import EngineState
from pliant.runtime.clock import Clock
from pliant.runtime.controller import Controller
from pliant.runtime.metrics import Histogram

SOON = 1.0
"""Seconds between two plans at least while somebody waits."""
BREATH = 0.05
"""Seconds for which news gather: seldom does one thing change alone."""
BATCH = 50
"""Jobs that are met at a stretch when there are many."""
SMALL = 200
"""Nodes and groups that are planned on the spot; more of them in a thread, as that takes a while."""
MEASURES = "goodput"
"""The policy that goes by how fast jobs are."""
ENDING = "a member has ended its work, the others are about to"

_Groups = Mapping[GroupKey, Drawn]

log = logging.getLogger(__name__)


class Autoscaler:
    """Looks at nothing until there is a job whose size it may set, and at nothing twice that has not changed."""

    def __init__(  # noqa: PLR0913
        self,
        client: KubeClient,
        clock: Clock,
        nodes: Informer[Node],
        wishes: Wishes,
        options: Options,
        *,
        jobs: Callable[[], Iterable[Job]],
        on_wish: Callable[[Job], None],
        hindrance: str = "",
    ) -> None:
        self.controller: Controller[str] = Controller("autoscaler", self._round, workers=1)
        self.planning = Histogram()
        """How long plans took."""
        self.resizes: Counter[str] = Counter()
        """Orders given, by the kind of their reason."""
        self.register = Register()
        self.sources = Sources(client, nodes, self.register, self._heard)
        self._clock = clock
        self._wishes = wishes
        self._options = options
        self._jobs = jobs
        self._on_wish = on_wish
        self._hindrance = hindrance
        self._chronicle = Chronicle(options.pace)
        self._speeds = Speedometer()
        self._measured: dict[tuple[str, str], Mapping[int, float]] = {}
        self._needed = asyncio.Event()
        self._is_watching = False
        self._planned_at = float("-inf")

    @property
    def informers(self) -> Mapping[str, Informer[Any]]:
        """What is watched for plans alone; nothing until there is a job to plan for."""
        return self.sources.informers if self._is_watching else {}

    async def run(self) -> None:
        """Plan until cancelled, from when there is a job to plan for."""
        await self._needed.wait()
        self._hindrance = self._hindrance or await self.sources.hindrance()
        if self._hindrance:
            log.info("autoscaler off", extra={"because": self._hindrance})
            for job in list(self.register):
                self._say_off(job)
            return
        async with asyncio.TaskGroup() as tasks:
            await self.sources.follow(tasks)
            await self._meet_all()
            self._is_watching = True
            self._heard(News.NEED)
            await self.controller.run()

    async def _meet_all(self) -> None:
        """Know every job before the first plan: members of others would pass for somebody else's pods."""
        for number, job in enumerate(self._jobs()):
            self.sources.picture.touch(self.register.note(job))
            if number % BATCH == 0:
                await asyncio.sleep(0)

    def note(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Take in a job as its own pass sees it."""
        changed = self.register.note(job)
        if self.register.get(job.owner.uid) is not None:
            self._measure(job, progress)
            self._needed.set()
            if self._hindrance:
                self._say_off(job)
        self._touch(changed)

    def forget(self, kind: str, key: JobKey) -> None:
        """Take in that a job is gone."""
        self._touch(self.register.forget(kind, key))

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Take in what became of a node."""
        if self._needed.is_set():
            self.sources.node_changed(old, new)

    def _touch(self, uids: Iterable[str]) -> None:
        if uids := set(uids):
            self.sources.picture.touch(uids)
            self._heard(News.NEED)

    def _heard(self, news: News) -> None:
        """Plan when it is time: soon if somebody waits, else not before the period is over."""
        if not self._is_watching:
            return
        gap = SOON if news is News.NEED else self._options.period.total_seconds()
        wait = max(self._planned_at + gap - asyncio.get_running_loop().time(), BREATH)
        self.controller.queue.add_after("cluster", timedelta(seconds=wait))

    async def _round(self, _: str) -> timedelta | None:
        """Draw, plan and tell; returns when something may be done that may not be done now."""
        loop = asyncio.get_running_loop()
        self._planned_at = loop.time()
        now = self._clock.now()
        drawn = {each.elastic.key: each for each in self.sources.picture.groups()}
        elastics = {key: self._paced(each, now) for key, each in drawn.items()}
        sketch = self._sketch(drawn, elastics, now)
        found = await (asyncio.to_thread(plan, sketch) if sketch.extent > SMALL else _at_once(sketch))
        self.planning.note(loop.time() - self._planned_at)
        self._tell(drawn, elastics, found, now)
        self._chronicle.keep(elastics)
        look = self._chronicle.next_look(now.timestamp())
        return None if look is None else timedelta(seconds=max(look - now.timestamp(), SOON))

    def _paced(self, drawn: Drawn, now: datetime) -> Elastic:
        group = drawn.elastic.key.group
        state = self._state(drawn.uid)
        waiting = ordered(self._wishes.of(drawn.uid).get(group), state.group(group))
        elastic = self._chronicle.paced(drawn, state, waiting, now.timestamp())
        if self._policy(self._job(drawn.uid)) != MEASURES:
            return elastic
        return self._chronicle.measured(elastic, drawn, now.timestamp())

    def _sketch(self, drawn: _Groups, elastics: Mapping[GroupKey, Elastic], now: datetime) -> Sketch:
        terms = picture.Terms(now, self._options.load)
        cluster = self.sources.picture.cluster(drawn, elastics, terms)
        jobs = {key: self._job(each.uid) for key, each in drawn.items()}
        return Sketch(
            cluster=cluster,
            policy=self._options.policy,
            chosen={key: job.autoscaling.policy for key, job in jobs.items() if job.autoscaling.policy},
            advised=frozenset(key for key, job in jobs.items() if self._only_advises(job)),
        )

    def _tell(self, drawn: _Groups, elastics: Mapping[GroupKey, Elastic], found: Plan, now: datetime) -> None:
        """Leave what is wanted with the jobs, and have those looked at for whom it is news."""
        wanted: dict[str, dict[str, Wish]] = {}
        for key, each in drawn.items():
            elastic, job = elastics[key], self.register.get(each.uid)
            if job is None:
                continue  # it has ended while its size was planned
            verdict = found.get(key) or Verdict(elastic.size, Code.FIXED, ENDING)
            before = self._wishes.of(each.uid).get(key.group)
            wish = self._wish(job, each, verdict, now)
            if wish is not before and wish.is_order and verdict.size != elastic.size:
                self._chronicle.resized(key, verdict.size - elastic.size, now.timestamp())
                self.resizes[str(verdict.code)] += 1
            wanted.setdefault(each.uid, {})[key.group] = wish
        for uid, wishes in wanted.items():
            job = self.register.get(uid)
            if self._wishes.put(uid, wishes) and job is not None:
                self._on_wish(job)
        self._wishes.keep(wanted)

    def _wish(self, job: Job, drawn: Drawn, verdict: Verdict, now: datetime) -> Wish:
        group, uid = drawn.elastic.key.group, drawn.uid
        terms = Terms(
            at=now,
            known_at=drawn.known_at,
            is_order=not self._only_advises(job),
            speeds=self._measured.pop((uid, group), {}),
        )
        return wish_for(verdict, self._state(uid).group(group), self._wishes.of(uid).get(group), terms)

    def _policy(self, job: Job) -> str:
        return job.autoscaling.policy or self._options.policy

    def _only_advises(self, job: Job) -> bool:
        return self._options.only_advice or bool(job.autoscaling.only_advice)

    def _measure(self, job: Job, progress: Mapping[str, Any]) -> None:
        """Remember how fast a job is, if its size depends on that and it is clear on whose."""
        moving = [group.name for group in job.groups if may_move(group)]
        if self._policy(job) != MEASURES or len(moving) != 1:
            return
        if speeds := self._speeds.read(job, moving[0], progress):
            self._measured[job.owner.uid, moving[0]] = speeds
            self._heard(News.ROOM)

    def _say_off(self, job: Job) -> None:
        """Tell in the job's status that nobody plans, and why."""
        state, uid, now = self._state(job.owner.uid), job.owner.uid, self._clock.now()
        terms = Terms(at=now, known_at=None, is_order=False, speeds={})
        wishes = {
            group.name: wish_for(
                Verdict(size, Code.FIXED, f"the autoscaler is off: {self._hindrance}"),
                state.group(group.name),
                self._wishes.of(uid).get(group.name),
                terms,
            )
            for group in filter(may_move, job.groups)
            if (size := state.group(group.name).size)
        }
        if wishes and self._wishes.put(uid, wishes):
            self._on_wish(job)

    def _job(self, uid: str) -> Job:
        job = self.register.get(uid)
        assert job is not None, "drawn, and not registered"
        return job

    def _state(self, uid: str) -> EngineState:
        state = self._job(uid).state
        assert state is not None, "registered before its first pass"
        return state


async def _at_once(sketch: Sketch) -> Plan:
    return plan(sketch)
