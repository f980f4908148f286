"""Runs jobs on a started local cluster: applies them, follows them to their end, and summarizes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pliant.cli.cluster.apply import LocalObjectCreator, frontends_in, install_crds
from pliant.cli.cluster.retained_logs import attempt_of
from pliant.cli.explain.failure_hints import explain_start_failure
from pliant.cli.explain.os_errors import is_disk_full
from pliant.cli.input.manifests import Manifest
from pliant.cli.input.operator_options import local_master_command
from pliant.cli.local.replica_log_files import ReplicaLogFiles
from pliant.cli.local.run_result import RunResult, summarize_finished_run, summarize_stuck_run, summarize_timed_out_run
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
from pliant.frontends.accepted_spec import parse_stored_job
from pliant.frontends.frontend import Frontend
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node, Pod
from pliant.kube.resources import EVENTS, NODES, PODS
from pliant.model.english import render
from pliant.model.job import Job
from pliant.model.operator_config import OperatorConfig
from pliant.model.state import EngineState, JobPhase
from pliant.plugins.registry import registered_kinds
from pliant.runtime.clock import SystemClock

LOG_DRAIN_IDLE_TIMEOUT = timedelta(seconds=5)  # how long streams of ended containers may be idle before they are closed
PHASE_CHANGE_REASONS = frozenset(JobPhase)
REPORTED_START_FAILURES = 2  # how often a program ends right after its start before this is explained
MAX_SIMILAR_WARNINGS = 3  # warnings that differ only in the object are shown this often
CHANGE_BATCH_DELAY_SECONDS = 0.02  # seconds during which changes are collected


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """What to run, and for how long at most."""

    manifests: list[Manifest]
    kind_registry: KindRegistry
    namespace: str
    timeout: timedelta | None
    style: TerminalStyle
    autoscale: AutoscaleOptions | None = None
    log_files: ReplicaLogFiles | None = None


@dataclass(frozen=True, slots=True)
class OperatorSetup:
    """What the operator of a run works with."""

    client: KubeClient
    """Has the permissions of the operator, unlike the client of the user."""
    key_secret: bytes
    receiver: ProgressReceiver | None = None


class RunSession:
    """Runs the jobs of a plan with its own operator and shows what happens."""

    def __init__(
        self, client: KubeClient, operator_setup: OperatorSetup, plan: RunPlan, view: RunView, tasks: asyncio.TaskGroup
    ) -> None:
        self._operator_setup = operator_setup
        self._client = client
        self._plan = plan
        self._view = view
        self._tasks = tasks
        self._run_state = RunState()
        self._kinds = frontends_in(plan.manifests)
        self._logs = LogStreams(client, tasks, self._on_log_line, self._on_log_chunk if plan.log_files else None)
        self._pods: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._on_pod_change)
        self._changed = asyncio.Event()
        self._data_dir: Path | None = None
        self._shown_notes: set[tuple[str, str, str]] = set()
        self._similar_warnings: dict[str, int] = {}

    async def run_jobs(self, started_at: float, data_dir: Path) -> RunResult:
        """Apply the manifests, follow the jobs to their end, and return the result."""
        self._data_dir = data_dir
        timeout = self._plan.timeout
        deadline = started_at + timeout.total_seconds() if timeout else None
        background: list[asyncio.Task[None]] = []
        try:
            async with asyncio.timeout_at(deadline):
                await install_crds(self._client, self._kinds)
                self._run_state.set_nodes((await self._client.list(NODES, decode_as=Node)).items)
                background = [self._tasks.create_task(work) for work in self._background_work()]
                await self._apply_manifests()
                stuck = await self._wait_until_finished()
        except TimeoutError:
            if timeout is None:
                raise
            return summarize_timed_out_run(self._run_state, self._logs, timeout, self._plan.style)
        else:
            # The job watch may report the end before the pod watch reports the last containers.
            for pod in (await self._client.list(PODS, decode_as=Pod)).items:
                self._logs.follow_pod(pod)
            await self._logs.drain_and_close(LOG_DRAIN_IDLE_TIMEOUT)
            if stuck:
                return summarize_stuck_run(stuck, self._plan.style)
            elapsed = timedelta(seconds=asyncio.get_running_loop().time() - started_at)
            return summarize_finished_run(self._run_state, self._logs, elapsed, self._plan.style)
        finally:
            await self._logs.drain_and_close(timedelta(0))
            for task in background:
                task.cancel()

    def _background_work(self) -> Iterable[Any]:
        yield Operator(
            self._operator_setup.client,
            SystemClock(),
            frontends=self._kinds,
            config=OperatorConfig(master_command=local_master_command()),
            key_secret=self._operator_setup.key_secret,
            progress_receiver=self._operator_setup.receiver,
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
                self._view.show_note(f"! {key.name} was deleted")
                self._changed.set()

        return Informer(self._client, resource_of(frontend), dict, on_change=changed)

    async def _apply_manifests(self) -> None:
        applier = LocalObjectCreator(self._client, self._plan.kind_registry, self._plan.namespace)
        for raw in await applier.create_and_return_jobs(self._plan.manifests):
            group = raw["apiVersion"].partition("/")[0]
            self._update_job(registered_kinds()[group, raw["kind"]], raw)
        self._view.register_log_prefixes(self._run_state.expected_log_prefixes())
        for shortage in self._run_state.total_shortage_texts():
            self._view.show_note(f"! {shortage}")

    async def _wait_until_finished(self) -> list[StuckReplica]:
        """Wait until all jobs have ended, or until a replica can never start; return such replicas."""
        while True:
            self._view.show_group_status(self._run_state.group_lines())
            self._warn_if_disk_is_full()
            if self._run_state.are_all_jobs_finished():
                return []
            if permanent := [stuck for stuck in self._run_state.stuck_replicas() if stuck.is_permanent]:
                return permanent
            await self._changed.wait()
            await asyncio.sleep(CHANGE_BATCH_DELAY_SECONDS)
            self._changed.clear()

    def _warn_if_disk_is_full(self) -> None:
        if self._data_dir is not None and is_disk_full(self._data_dir):
            self._show_warning("", f"the disk of {self._data_dir} is full: logs are truncated")

    def _update_job(self, frontend: Frontend, raw: dict[str, Any]) -> None:
        job, state, _ = parse_stored_job(frontend, raw)
        self._run_state.update_job(job, state)
        if state is not None:
            self._show_transitions(job, state)
            self._show_start_failures(job, state)
        self._changed.set()

    def _show_transitions(self, job: Job, state: EngineState) -> None:
        """Show timeline entries that do not change the phase, such as resizes and replaced replicas."""
        for entry in state.timeline:
            text = render(entry.message)
            note = (str(job.key), entry.reason, f"{entry.at} {text}")
            if entry.reason not in PHASE_CHANGE_REASONS and note not in self._shown_notes:
                self._shown_notes.add(note)
                self._view.show_note(sanitize_line(f"{job.key.name}: {text}"))

    def _show_start_failures(self, job: Job, state: EngineState) -> None:
        """Show why programs cannot start as soon as they ended the same way twice, while restarts go on."""
        for name, failure in ((name, group.start_failure) for name, group in state.groups.items()):
            if failure is not None and failure.count >= REPORTED_START_FAILURES:
                note = (str(job.key), name, failure.cause)
                if note not in self._shown_notes:
                    self._shown_notes.add(note)
                    text = explain_start_failure(name, failure, self._run_state.local_programs(job))
                    self._view.show_note(sanitize_line(f"! {job.key.name}: {text}"))

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        # Now: when the job ends, the logs of its pods are deleted and leave room.
        self._warn_if_disk_is_full()
        if new is not None:
            self._run_state.update_pod(new)
            self._logs.follow_pod(new)
        elif old is not None:
            self._run_state.remove_pod(old)
            self._logs.mark_pod_deleted(old)
        self._changed.set()

    def _on_event_change(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        """Show warnings about other objects; those about jobs are shown with their phase."""
        if new is None or new.get("type") != "Warning":
            return
        involved = new.get("involvedObject", {})
        if involved.get("kind") not in {kind for _, kind in registered_kinds()}:
            self._show_warning(involved.get("name", ""), f"{new.get('reason', '')}: {new.get('message', '')}")

    def _show_warning(self, object_name: str, message: str) -> None:
        """Show a warning once, and of similar warnings only the first few."""
        note = ("", object_name, message)
        if note in self._shown_notes:
            return
        self._shown_notes.add(note)
        count = self._similar_warnings[message] = self._similar_warnings.get(message, 0) + 1
        if count <= MAX_SIMILAR_WARNINGS:
            self._view.show_note(sanitize_line(f"! {object_name}: {message}" if object_name else f"! {message}"))
        elif count == MAX_SIMILAR_WARNINGS + 1:
            self._view.show_note(sanitize_line(f"! {object_name} and others: same warning"))

    def _on_log_chunk(self, pod: Pod, container: str, chunk: bytes) -> None:
        files = self._plan.log_files
        if files is not None:
            is_ambiguous = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
            files.append(self._run_state.log_prefix(pod), attempt_of(pod), container if is_ambiguous else "", chunk)
            if files.problem:
                self._show_warning("", files.problem)

    def _on_log_line(self, pod: Pod, container: str, line: str) -> None:
        if self._run_state.record_progress_from_log(pod, line):
            self._changed.set()
        prefix = self._run_state.log_prefix(pod)
        is_ambiguous = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        self._view.show_log_line(f"{prefix}/{container}" if is_ambiguous else prefix, line)
