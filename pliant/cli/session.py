"""One run from the first object to the verdict, on a cluster that is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pliant.cli.apply import Applier, install_crds, kinds_in
from pliant.cli.board import Board, Stuck
from pliant.cli.lines import safe_text
from pliant.cli.logstreams import LogStreams
from pliant.cli.manifests import Manifest
from pliant.cli.operator_options import own_master
from pliant.cli.shortfalls import is_full
from pliant.cli.style import Style
from pliant.cli.verdict import Verdict, stuck_verdict, timeout_verdict, verdict
from pliant.cli.view import View
from pliant.controllers.autoscale.options import Options
from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.controllers.reports import ReportDesk
from pliant.embedded.catalog.resources import Catalog
from pliant.frontends.base import Frontend
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model.job import Job
from pliant.model.rules import Rules
from pliant.model.state import Phase
from pliant.plugins.known import kinds
from pliant.runtime.clock import SystemClock

LAST_WORDS = timedelta(seconds=5)
"""How long the streams of containers that have ended may be silent before they are given up."""
PHASES = frozenset(Phase)
MOST_ALIKE = 3
"""How many warnings that differ by nothing but their pod are told one by one."""
FRAME = 0.02
"""Seconds during which changes gather before they are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be run, and for how long at most."""

    manifests: list[Manifest]
    catalog: Catalog
    namespace: str
    timeout: timedelta | None
    style: Style
    autoscale: Options | None = None
    """How sizes are planned, if they are."""


class Session:
    """Runs the jobs of one plan with an operator of its own, and shows what happens."""

    def __init__(
        self,
        client: KubeClient,
        plan: Plan,
        view: View,
        tasks: asyncio.TaskGroup,
        desk: ReportDesk | None = None,
    ) -> None:
        self._desk = desk
        self._client = client
        self._plan = plan
        self._view = view
        self._tasks = tasks
        self._board = Board()
        self._kinds = kinds_in(plan.manifests)
        self._logs = LogStreams(client, tasks, self._line)
        self._pods: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._pod_changed)
        self._changed = asyncio.Event()
        self._told: set[tuple[str, str, str]] = set()
        self._alike: dict[str, int] = {}

    async def verdict(self, began: float, data: Path) -> Verdict:
        """Apply everything, follow it to its end, and say how it ended; the cluster keeps its data in a folder."""
        loop = asyncio.get_running_loop()
        limit = self._plan.timeout
        deadline = began + limit.total_seconds() if limit else None
        background: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout_at(deadline):
                await install_crds(self._client, self._kinds)
                self._board.put_nodes((await self._client.list(NODES, into=Node)).items)
                background = [self._tasks.create_task(work) for work in self._followers()]
                await self._begin()
                stuck = await self._end(data)
        except TimeoutError:
            if limit is None:
                raise
            return timeout_verdict(self._board, self._logs, limit, self._plan.style)
        else:
            # The end of a job may be known before that of its pods: there are two watches.
            for pod in (await self._client.list(PODS, into=Pod)).items:
                self._logs.notice(pod)
            await self._logs.drain(LAST_WORDS)
            took = timedelta(seconds=loop.time() - began)
            return stuck_verdict(stuck, self._plan.style) if stuck else self._final(took)
        finally:
            await self._logs.drain(timedelta(0))
            for task in background:
                task.cancel()

    def _final(self, took: timedelta) -> Verdict:
        return verdict(self._board, self._logs, took, self._plan.style)

    def _followers(self) -> Iterable[Any]:
        """Everything that runs beside the run itself."""
        yield Operator(
            self._client,
            SystemClock(),
            frontends=self._kinds,
            rules=Rules(master_command=own_master()),
            reports=self._desk,
            autoscale=self._plan.autoscale,
        ).run()
        yield self._pods.run()
        events: Informer[dict[str, Any]] = Informer(self._client, EVENTS, dict, on_change=self._event_changed)
        yield events.run()
        for frontend in self._kinds:
            yield self._jobs_of(frontend).run()

    def _jobs_of(self, frontend: Frontend) -> Informer[dict[str, Any]]:
        def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is not None:
                self._take_job(frontend, new)
            elif old is not None and (key := self._board.drop_job(old["metadata"].get("uid", ""))):
                self._view.note(f"! {key.name} was deleted")
                self._changed.set()

        return Informer(self._client, resource_of(frontend), dict, on_change=changed)

    async def _begin(self) -> None:
        applier = Applier(self._client, self._plan.catalog, self._plan.namespace)
        for raw in await applier.apply(self._plan.manifests):
            group = raw["apiVersion"].partition("/")[0]
            self._take_job(kinds()[group, raw["kind"]], raw)
        self._view.expect(self._board.speakers())
        for lack in self._board.shortages():
            self._view.note(f"! {lack}")

    async def _end(self, data: Path) -> list[Stuck]:
        """Wait for the end of every job; members that can never start end the wait too."""
        while True:
            self._view.show(self._board.lines())
            if is_full(data):
                self._warn("", f"the disk of {data} is full: logs are cut short")
            if self._board.is_over():
                return []
            if hopeless := [stuck for stuck in self._board.stuck() if stuck.is_hopeless]:
                return hopeless
            await self._changed.wait()
            await asyncio.sleep(FRAME)
            self._changed.clear()

    def _take_job(self, frontend: Frontend, raw: dict[str, Any]) -> None:
        job = frontend.parse(raw)
        self._board.put_job(job)
        self._tell_turns(job)
        self._changed.set()

    def _tell_turns(self, job: Job) -> None:
        """Tell changes of course that leave the phase alone: sizes, members that are replaced at no charge."""
        for moment in job.state.timeline if job.state else ():
            told = (str(job.key), moment.what, f"{moment.at} {moment.why}")
            if moment.what not in PHASES and told not in self._told:
                self._told.add(told)
                self._view.note(safe_text(f"{job.key.name}: {moment.why}"))

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._board.put_pod(new)
            self._logs.notice(new)
        elif old is not None:
            self._board.drop_pod(old)
            self._logs.gone(old)
        self._changed.set()

    def _event_changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Tell warnings of the cluster; what concerns a job as a whole is told by its phase."""
        if new is None or new.get("type") != "Warning":
            return
        about = new.get("involvedObject", {})
        if about.get("kind") not in {kind for _, kind in kinds()}:
            self._warn(about.get("name", ""), f"{new.get('reason', '')}: {new.get('message', '')}")

    def _warn(self, name: str, what: str) -> None:
        """Tell a warning once, and of many alike only the first few."""
        told = ("", name, what)
        if told in self._told:
            return
        self._told.add(told)
        alike = self._alike[what] = self._alike.get(what, 0) + 1
        if alike <= MOST_ALIKE:
            self._view.note(safe_text(f"! {name}: {what}" if name else f"! {what}"))
        elif alike == MOST_ALIKE + 1:
            self._view.note(safe_text(f"! {name} and others: the same"))

    def _line(self, pod: Pod, container: str, line: str) -> None:
        if self._board.hear(pod, line):
            self._changed.set()
        speaker = self._board.speaker(pod)
        many = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        self._view.log(f"{speaker}/{container}" if many else speaker, line)
