"""Run one container of a pod, again and again as its restart policy says."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.kubelet.environment.variables import (
    MissingConfig,
    UnsupportedPodSpec,
    build_command_line,
    build_environment,
)
from pliant.embedded.kubelet.logs.termination_message import (
    create_message_file,
    message_file_mount,
    read_termination_message,
)
from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.lifecycle import PodLifecycle
from pliant.embedded.kubelet.pods.status import ContainerRecord
from pliant.embedded.kubelet.probes.handlers import ProbeTarget, validate_handlers
from pliant.embedded.kubelet.probes.prober import ContainerProber
from pliant.embedded.kubelet.runtime.node_agent import AgentRequestFailed, ContainerConfig, ContainerExit
from pliant.kube.quantity import parse_quantity

_START_FAILED_EXIT = ContainerExit(128)
_INITIAL_BACKOFF = 10.0
_MAX_BACKOFF = 300.0
_BACKOFF_RESET_AFTER = 600.0
"""A container that ran for this many seconds before it ended starts with a clean slate."""


class ContainerRunner:
    """Starts a container, waits for its end, and starts it anew where that is wanted."""

    def __init__(self, pod: PodContext, record: ContainerRecord) -> None:
        self._pod = pod
        self._record = record
        self._log_path = Path()
        """Where the present run writes."""
        self._started_event = asyncio.Event()
        self._finished_event = asyncio.Event()
        self._stop_event = asyncio.Event() if record.is_sidecar else pod.stopping
        """The container is to end: most do with the pod, those that stay beside others when they are told."""

    async def wait_started(self) -> bool:
        """Wait until the container has started in the sense of its startup probe; false when nobody needs it."""
        waits = [
            asyncio.ensure_future(each.wait())
            for each in (self._started_event, self._finished_event, self._pod.stopping)
        ]
        try:
            await _wait_first(*waits)
        finally:
            for each in waits:
                each.cancel()
        return self._started_event.is_set() and not self._finished_event.is_set()

    async def stop_sidecar(self) -> None:
        """Tell a container that stays beside the others to end, and wait until it has."""
        self._stop_event.set()
        await self._finished_event.wait()

    async def run_with_restarts(self, restart_policy: str) -> bool:
        """Run the container until its policy or the pod's end says stop; whether it ended well.

        The report has been told to hold back for its first start.
        """
        pause, loop = 0.0, asyncio.get_running_loop()
        self._record.restart_policy = restart_policy
        try:
            while True:
                began = loop.time()
                await self._run_once()
                if loop.time() - began > _BACKOFF_RESET_AFTER:
                    pause = 0.0
                if not self._should_restart(restart_policy) or not await self._wait_backoff(pause):
                    await self._pod.status_writer.publish()
                    return self._record.has_succeeded
                pause = min(pause * 2 or _INITIAL_BACKOFF, _MAX_BACKOFF)
                self._pod.status_writer.hold_until_started(1)
        finally:
            self._finished_event.set()

    async def _run_once(self) -> None:
        """Start the container and stay with it until it ends; its record tells how that went."""
        ending = await self._start_when_possible()
        if ending is None:
            self._pod.status_writer.note_started()
            await self._pod.status_writer.publish()
            return
        manners = PodLifecycle(self._pod, self._probe_target())
        async with asyncio.TaskGroup() as tasks:
            keepers = [tasks.create_task(self._terminate_on_stop(manners))]
            if manners.has_post_start:
                keepers.append(tasks.create_task(self._run_post_start(manners, ending)))
                await _wait_first(keepers[-1], ending)
            if not (manners.has_post_start and ending.done()):
                self._set_running()
            keepers.append(tasks.create_task(self._create_prober(manners).run()))
            self._pod.status_writer.note_started()
            await self._pod.status_writer.publish()
            self._record_exit(await ending)
            for each in keepers:
                each.cancel()

    async def _terminate_on_stop(self, lifecycle: PodLifecycle) -> None:
        await self._stop_event.wait()
        await lifecycle.terminate(None)

    async def _run_post_start(self, lifecycle: PodLifecycle, exit_future: asyncio.Future[ContainerExit]) -> None:
        """Do what follows the start; a container that fails at it must go, and is not told of until it has."""
        if not await lifecycle.run_post_start():
            await lifecycle.terminate(self._grace_period())
            await asyncio.wait([exit_future])

    def _set_running(self) -> None:
        self._record.set_running(self._pod.now_timestamp(), f"pliant://{self._pod.meta.uid}/{self._run_name}")
        if self._record.has_started:
            self._set_started()

    def _create_prober(self, lifecycle: PodLifecycle) -> ContainerProber:
        async def end(grace: float | None) -> None:
            await lifecycle.terminate(self._grace_period() if grace is None else grace)

        return ContainerProber(
            pod=self._pod, record=self._record, target=self._probe_target(), on_started=self._set_started, terminate=end
        )

    def _set_started(self) -> None:
        self._record.has_ever_started = True
        self._started_event.set()

    @property
    def _run_name(self) -> str:
        """What the agent calls the present run."""
        return f"{self._record.name}/{self._record.restart_count}"

    def _probe_target(self) -> ProbeTarget:
        pod = self._pod
        assert pod.resolved_pod is not None
        return ProbeTarget(
            agent=pod.deps.agent,
            pod_uid=pod.meta.uid,
            run_name=self._run_name,
            address=pod.resolved_pod.address,
            spec=self._record.spec,
        )

    def _grace_period(self) -> float:
        """Seconds the container has to leave when the pod stays."""
        assert self._pod.resolved_pod is not None
        return termination_grace(self._pod.resolved_pod.pod["spec"])

    def _record_exit(self, exit_status: ContainerExit) -> None:
        said = read_termination_message(self._record.spec, self._log_path, has_failed=exit_status.code != 0)
        reason = "OOMKilled" if exit_status.is_oom_killed else ""
        self._record.set_terminated(self._pod.now_timestamp(), exit_status, reason, said)

    def _should_restart(self, restart_policy: str) -> bool:
        """Whether to start it anew."""
        if self._pod.stopping.is_set() or self._stop_event.is_set() or restart_policy == "Never":
            return False
        return restart_policy == "Always" or not self._record.has_succeeded

    async def _wait_backoff(self, backoff: float) -> bool:
        """Wait before the next start; whether it is still wanted then."""
        record, pod = self._record, self._pod
        if backoff:
            ended, whole = record.state, f"{pod.meta.name}_{pod.meta.namespace}({pod.meta.uid})"
            message = f"back-off {backoff:.0f}s restarting failed container={record.name} pod={whole}"
            record.set_waiting("CrashLoopBackOff", message)
            await pod.emit_warning("BackOff", f"Back-off restarting failed container {record.name} in pod {whole}")
            await pod.status_writer.publish()
            await pod.wait_unless_stopped(asyncio.sleep(backoff))
            if pod.stopping.is_set():
                record.state = ended
                return False
        record.count_restart()
        return True

    async def _start_when_possible(self) -> asyncio.Future[ContainerExit] | None:
        """Start it; None when that is impossible, and then its record says why."""
        while not self._pod.stopping.is_set():
            try:
                return await self._try_start()
            except MissingConfig as problem:
                await self._wait_for_config(problem)
            except (UnsupportedPodSpec, OSError) as problem:
                await self._report_waiting("CreateContainerError", problem)
                await self._pod.stopping.wait()
            except AgentRequestFailed as problem:
                if not self._pod.stopping.is_set():
                    self._record.set_terminated(
                        self._pod.now_timestamp(), _START_FAILED_EXIT, "StartError", str(problem)
                    )
                    await self._pod.emit_warning("Failed", f"container {self._record.name!r} did not start: {problem}")
                break
        return None

    async def _wait_for_config(self, missing: MissingConfig) -> None:
        """Wait until a missing piece of configuration may have come."""
        pod = self._pod
        assert pod.resolved_pod is not None
        await self._report_waiting("CreateContainerConfigError", missing)
        await pod.wait_unless_stopped(
            pod.config_reader.wait_for_change(missing.kind, missing.name, pod.resolved_pod.config_data)
        )
        found = await pod.config_reader.read_referenced(pod.resolved_pod.pod["spec"])
        pod.resolved_pod = pod.resolved_pod.with_config_data(found)

    async def _report_waiting(self, reason: str, error: Exception) -> None:
        self._record.set_waiting(reason, str(error))
        await self._pod.emit_warning("Failed", f"container {self._record.name!r}: {error}")
        await self._pod.status_writer.publish(even_if_held=True)

    async def _try_start(self) -> asyncio.Future[ContainerExit]:
        pod, record = self._pod, self._record
        path = self._log_path = pod.deps.logs.open_run(pod.meta.uid, record.name, record.restart_count)
        run = self._run_name
        try:
            validate_handlers(record.spec)
            command = self._build_config(path)
            if record.spec.get("stdin") or record.spec.get("tty"):
                pod.deps.stdin.create_pipe(pod.meta.uid, run, record.spec, path.with_suffix(".input"))
                command["input"] = str(path.with_suffix(".input"))
                command["terminal"] = bool(record.spec.get("tty"))
            ending = await pod.deps.agent.start_container(pod.meta.uid, run, command)
        except BaseException:
            self._clean_up_run(run, path)
            raise
        ending.add_done_callback(lambda _: self._clean_up_run(run, path))
        pod.add_running(run)
        return ending

    def _clean_up_run(self, run_name: str, log_path: Path) -> None:
        self._pod.running_containers.discard(run_name)
        self._pod.deps.logs.close_run(log_path)
        self._pod.deps.stdin.close_pipe(self._pod.meta.uid, run_name)
        self._pod.deps.cpu_allocator.release((self._pod.meta.uid, run_name))

    def _build_config(self, log_path: Path) -> ContainerConfig:
        pod, spec = self._pod, self._record.spec
        assert pod.resolved_pod is not None
        furnishing = pod.deps.filesystem
        variables = build_environment(spec, pod.resolved_pod, furnishing.base_variables(pod.hostname, pod.resolved_pod))
        variables |= pod.deps.gpus.visible_devices_env(pod.meta.uid, pod.resolved_pod.pod["spec"], self._record.name)
        if spec.get("tty"):
            variables.setdefault("TERM", "xterm")
        argv = build_command_line(spec, variables)
        if not argv:
            kind = "initContainers" if self._record.is_init else "containers"
            raise UnsupportedPodSpec(
                f"images are not run here: set `command` of container {spec['name']!r} in spec.{kind}"
            )
        limits = (spec.get("resources") or {}).get("limits") or {}
        return ContainerConfig(
            argv=argv,
            env=variables,
            folder=str(spec.get("workingDir") or furnishing.default_working_dir),
            log=str(log_path),
            mounts=[
                *furnishing.container_mounts(spec, pod.meta, pod.volumes, variables),
                message_file_mount(spec, create_message_file(log_path)),
            ],
            memory=math.ceil(parse_quantity(limits.get("memory") or 0)),
            cpu=float(parse_quantity(limits.get("cpu") or 0)),
            cpus=pod.deps.cpu_allocator.allocate(
                (pod.meta.uid, self._run_name), parse_quantity(limits.get("cpu") or 0)
            ),
        )


def termination_grace(pod_spec: Mapping[str, Any]) -> float:
    """Seconds that the containers of a pod have to leave."""
    grace = pod_spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


async def _wait_first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
