"""One run from the first object to the verdict, on a cluster that is up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pliant.cli.cluster.apply import ManifestApplier, frontends_in, install_crds
from pliant.cli.explain.os_errors import is_disk_full
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.operator_options import local_master_command
from pliant.cli.local.run_result import (
    SessionResult,
    summarize_finished_run,
    summarize_stuck_run,
    summarize_timed_out_run,
)
from pliant.cli.local.run_state import RunState, StuckReplica
from pliant.cli.output.log_lines import sanitize_line
from pliant.cli.output.log_streams import LogStreams
from pliant.cli.output.run_view import RunView
from pliant.cli.output.style import TerminalStyle
from pliant.controllers.autoscale.options import AutoscaleOptions
from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.controllers.progress_reports import ProgressReceiver
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.frontends.frontend import Frontend
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model.job import Job
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import JobPhase
from pliant.plugins.registry import registered_kinds
from pliant.runtime.clock import SystemClock

LOG_DRAIN_TIMEOUT = timedelta(seconds=5)
"""How long the streams of containers that have ended may be silent before they are given up."""
ALL_PHASES = frozenset(JobPhase)
MAX_SIMILAR_WARNINGS = 3
"""How many warnings that differ by nothing but their pod are told one by one."""
CHANGE_BATCH_DELAY = 0.02
"""Seconds during which changes gather before they are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What is to be run, and for how long at most."""

    manifests: list[Manifest]
    catalog: KindRegistry
    namespace: str
    timeout: timedelta | None
    style: TerminalStyle
    autoscale: AutoscaleOptions | None = None
    """How sizes are planned, if they are."""


class RunSession:
    """Runs the jobs of one plan with an operator of its own, and shows what happens."""

    def __init__(
        self,
        client: KubeClient,
        plan: RunPlan,
        view: RunView,
        tasks: asyncio.TaskGroup,
        receiver: ProgressReceiver | None = None,
    ) -> None:
        self._receiver = receiver
        self._client = client
        self._plan = plan
        self._view = view
        self._tasks = tasks
        self._run_state = RunState()
        self._kinds = frontends_in(plan.manifests)
        self._logs = LogStreams(client, tasks, self._on_log_line)
        self._pods: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._on_pod_change)
        self._changed = asyncio.Event()
        self._shown_notes: set[tuple[str, str, str]] = set()
        self._similar_warnings: dict[str, int] = {}

    async def run(self, started_at: float, data_dir: Path) -> SessionResult:
        """Apply everything, follow it to its end, and say how it ended; the cluster keeps its data in a folder."""
        loop = asyncio.get_running_loop()
        limit = self._plan.timeout
        deadline = started_at + limit.total_seconds() if limit else None
        background: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout_at(deadline):
                await install_crds(self._client, self._kinds)
                self._run_state.set_nodes((await self._client.list(NODES, decode_as=Node)).items)
                background = [self._tasks.create_task(work) for work in self._background_work()]
                await self._apply_manifests()
                stuck = await self._wait_until_finished(data_dir)
        except TimeoutError:
            if limit is None:
                raise
            return summarize_timed_out_run(self._run_state, self._logs, limit, self._plan.style)
        else:
            # The end of a job may be known before that of its pods: there are two watches.
            for pod in (await self._client.list(PODS, decode_as=Pod)).items:
                self._logs.follow_pod(pod)
            await self._logs.drain(LOG_DRAIN_TIMEOUT)
            took = timedelta(seconds=loop.time() - started_at)
            return summarize_stuck_run(stuck, self._plan.style) if stuck else self._finished_result(took)
        finally:
            await self._logs.drain(timedelta(0))
            for task in background:
                task.cancel()

    def _finished_result(self, elapsed: timedelta) -> SessionResult:
        return summarize_finished_run(self._run_state, self._logs, elapsed, self._plan.style)

    def _background_work(self) -> Iterable[Any]:
        """Everything that runs beside the run itself."""
        yield Operator(
            self._client,
            SystemClock(),
            frontends=self._kinds,
            config=OperatorConfig(master_command=local_master_command()),
            progress_receiver=self._receiver,
            autoscale_options=self._plan.autoscale,
        ).run()
        yield self._pods.run()
        events: Informer[dict[str, Any]] = Informer(self._client, EVENTS, dict, on_change=self._on_event_change)
        yield events.run()
        for frontend in self._kinds:
            yield self._job_informer(frontend).run()

    def _job_informer(self, frontend: Frontend) -> Informer[dict[str, Any]]:
        def changed(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
            if new is not None:
                self._update_job(frontend, new)
            elif old is not None and (key := self._run_state.mark_job_deleted(old["metadata"].get("uid", ""))):
                self._view.note(f"! {key.name} was deleted")
                self._changed.set()

        return Informer(self._client, resource_of(frontend), dict, on_change=changed)

    async def _apply_manifests(self) -> None:
        applier = ManifestApplier(self._client, self._plan.catalog, self._plan.namespace)
        for raw in await applier.apply(self._plan.manifests):
            group = raw["apiVersion"].partition("/")[0]
            self._update_job(registered_kinds()[group, raw["kind"]], raw)
        self._view.reserve_prefixes(self._run_state.expected_log_prefixes())
        for lack in self._run_state.resource_shortages():
            self._view.note(f"! {lack}")

    async def _wait_until_finished(self, data_dir: Path) -> list[StuckReplica]:
        """Wait for the end of every job; members that can never start end the wait too."""
        while True:
            self._view.show(self._run_state.group_lines())
            if is_disk_full(data_dir):
                self._show_warning("", f"the disk of {data_dir} is full: logs are cut short")
            if self._run_state.is_finished():
                return []
            if hopeless := [stuck for stuck in self._run_state.stuck_replicas() if stuck.is_permanent]:
                return hopeless
            await self._changed.wait()
            await asyncio.sleep(CHANGE_BATCH_DELAY)
            self._changed.clear()

    def _update_job(self, frontend: Frontend, raw: dict[str, Any]) -> None:
        job = frontend.parse(raw)
        self._run_state.update_job(job)
        self._show_transitions(job)
        self._changed.set()

    def _show_transitions(self, job: Job) -> None:
        """Tell changes of course that leave the phase alone: sizes, members that are replaced at no charge."""
        for moment in job.state.timeline if job.state else ():
            told = (str(job.key), moment.reason, f"{moment.at} {moment.message}")
            if moment.reason not in ALL_PHASES and told not in self._shown_notes:
                self._shown_notes.add(told)
                self._view.note(sanitize_line(f"{job.key.name}: {moment.message}"))

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._run_state.update_pod(new)
            self._logs.follow_pod(new)
        elif old is not None:
            self._run_state.remove_pod(old)
            self._logs.mark_pod_deleted(old)
        self._changed.set()

    def _on_event_change(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Tell warnings of the cluster; what concerns a job as a whole is told by its phase."""
        if new is None or new.get("type") != "Warning":
            return
        about = new.get("involvedObject", {})
        if about.get("kind") not in {kind for _, kind in registered_kinds()}:
            self._show_warning(about.get("name", ""), f"{new.get('reason', '')}: {new.get('message', '')}")

    def _show_warning(self, object_name: str, message: str) -> None:
        """Tell a warning once, and of many alike only the first few."""
        told = ("", object_name, message)
        if told in self._shown_notes:
            return
        self._shown_notes.add(told)
        alike = self._similar_warnings[message] = self._similar_warnings.get(message, 0) + 1
        if alike <= MAX_SIMILAR_WARNINGS:
            self._view.note(sanitize_line(f"! {object_name}: {message}" if object_name else f"! {message}"))
        elif alike == MAX_SIMILAR_WARNINGS + 1:
            self._view.note(sanitize_line(f"! {object_name} and others: the same"))

    def _on_log_line(self, pod: Pod, container: str, line: str) -> None:
        if self._run_state.record_progress(pod, line):
            self._changed.set()
        speaker = self._run_state.log_prefix(pod)
        many = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        self._view.log(f"{speaker}/{container}" if many else speaker, line)
