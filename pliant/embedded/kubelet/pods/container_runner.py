"""Run one container of a pod and restart it by the restart policy."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pliant.embedded.agent.container.config import ContainerConfig, Mount
from pliant.embedded.kubelet.environment import variables
from pliant.embedded.kubelet.environment.missing_directories import (
    MISSING_DIRECTORY_REASON,
    find_missing_directory,
    missing_directory_advice,
)
from pliant.embedded.kubelet.environment.variables import MissingConfig, UnsupportedPodSpec
from pliant.embedded.kubelet.logs.log_files import create_message_mount, read_termination_message
from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.lifecycle import ContainerLifecycle
from pliant.embedded.kubelet.pods.status import ContainerRecord
from pliant.embedded.kubelet.probes.handlers import ProbeTarget, validate_handlers
from pliant.embedded.kubelet.probes.prober import ContainerProber
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ContainerExit, ExitFuture
from pliant.schemas.quantity import parse_quantity

_START_FAILED_EXIT = ContainerExit(128)
_INITIAL_BACKOFF = 10.0
_MAX_BACKOFF = 300.0
_BACKOFF_RESET_AFTER = 600.0
"""A run of this many seconds resets the back-off."""


class ContainerRunner:
    """Starts a container, waits for its exit, and restarts it."""

    def __init__(self, pod: PodContext, record: ContainerRecord) -> None:
        self._pod = pod
        self._record = record
        self._log_path = Path()
        self._mounts: list[Mount] = []
        self._started_event = asyncio.Event()
        self._finished_event = asyncio.Event()
        self._stop_event = asyncio.Event() if record.is_sidecar else pod.stopping
        """Set to terminate the container: with the pod, or for a sidecar by `stop_sidecar`."""

    async def wait_started(self) -> bool:
        """Wait until the container has passed its startup probe; return False if it or the pod stops first."""
        events = (self._started_event, self._finished_event, self._pod.stopping)
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await _wait_first(*waits)
        finally:
            for wait in waits:
                wait.cancel()
        return self._started_event.is_set() and not self._finished_event.is_set()

    async def stop_sidecar(self) -> None:
        """Terminate a sidecar and wait for its exit."""
        self._stop_event.set()
        await self._finished_event.wait()

    async def run_with_restarts(self, restart_policy: str) -> bool:
        """Run the container until the restart policy or the pod ends it; return whether it succeeded.

        The caller has called `hold_writes_until_started` for its first start.
        """
        backoff, loop = 0.0, asyncio.get_running_loop()
        self._record.restart_policy = restart_policy
        try:
            while True:
                started_at = loop.time()
                await self._run_once()
                if loop.time() - started_at > _BACKOFF_RESET_AFTER:
                    backoff = 0.0
                if not self._should_restart(restart_policy) or not await self._wait_backoff(backoff):
                    await self._pod.status_writer.publish_if_changed()
                    return self._record.has_succeeded
                backoff = min(backoff * 2 or _INITIAL_BACKOFF, _MAX_BACKOFF)
                self._pod.status_writer.hold_writes_until_started(1)
        finally:
            self._finished_event.set()

    async def _run_once(self) -> None:
        """Start the container, wait for its exit, and record how it went."""
        exit_future = await self._start_when_possible()
        if exit_future is None:
            self._pod.status_writer.note_container_started()
            await self._pod.status_writer.publish_if_changed()
            return
        lifecycle = ContainerLifecycle(self._pod, self._probe_target())
        async with asyncio.TaskGroup() as tasks:
            companions = [tasks.create_task(self._terminate_on_stop(lifecycle))]
            if lifecycle.has_post_start:
                companions.append(tasks.create_task(self._run_post_start(lifecycle, exit_future)))
                await _wait_first(companions[-1], exit_future)
            if not (lifecycle.has_post_start and exit_future.done()):
                self._set_running()
            companions.append(tasks.create_task(self._create_prober(lifecycle).run()))
            self._pod.status_writer.note_container_started()
            await self._pod.status_writer.publish_if_changed()
            message = self._record_exit(await exit_future)
            for task in companions:
                task.cancel()
        await self._report_missing_directory(message)

    async def _terminate_on_stop(self, lifecycle: ContainerLifecycle) -> None:
        await self._stop_event.wait()
        await lifecycle.terminate(None)

    async def _run_post_start(self, lifecycle: ContainerLifecycle, exit_future: ExitFuture) -> None:
        """Run the postStart hook; if it fails, terminate the container, which is not reported as running."""
        if not await lifecycle.run_post_start():
            await lifecycle.terminate(self._grace_period())
            await asyncio.wait([exit_future])

    def _set_running(self) -> None:
        self._record.set_running(self._pod.now_timestamp(), f"pliant://{self._pod.meta.uid}/{self._run_name}")
        if self._record.has_started:
            self._set_started()

    def _create_prober(self, lifecycle: ContainerLifecycle) -> ContainerProber:
        async def terminate(grace_period: float | None) -> None:
            await lifecycle.terminate(self._grace_period() if grace_period is None else grace_period)

        return ContainerProber(
            pod=self._pod,
            record=self._record,
            target=self._probe_target(),
            on_started=self._set_started,
            terminate=terminate,
        )

    def _set_started(self) -> None:
        self._record.has_ever_started = True
        self._started_event.set()

    @property
    def _run_name(self) -> str:
        return f"{self._record.name}/{self._record.restart_count}"

    def _probe_target(self) -> ProbeTarget:
        return ProbeTarget(
            agent=self._pod.deps.agent,
            pod_uid=self._pod.meta.uid,
            run_name=self._run_name,
            address=self._pod.resolved_pod.address,
            spec=self._record.spec,
        )

    def _grace_period(self) -> float:
        return termination_grace_seconds(self._pod.resolved_pod.pod["spec"])

    def _record_exit(self, exit_status: ContainerExit) -> str:
        """Record how the container ended; return its termination message."""
        message = read_termination_message(self._record.spec, self._log_path, has_failed=exit_status.code != 0)
        reason = "OOMKilled" if exit_status.is_oom_killed else ""
        self._record.set_terminated(self._pod.now_timestamp(), exit_status, reason, message)
        return message

    async def _report_missing_directory(self, message: str) -> None:
        """Emit an event if the container failed because it expects the files of its image."""
        # In the host network mode, programs see the sources of mounts.
        paths = (path for mount in self._mounts for path in (mount["target"], mount.get("source")))
        mount_paths = [path for path in paths if path]
        if not self._record.has_succeeded and (directory := find_missing_directory(message, mount_paths)):
            await self._pod.emit_warning(MISSING_DIRECTORY_REASON, missing_directory_advice(directory))

    def _should_restart(self, restart_policy: str) -> bool:
        if self._pod.stopping.is_set() or self._stop_event.is_set() or restart_policy == "Never":
            return False
        return restart_policy == "Always" or not self._record.has_succeeded

    async def _wait_backoff(self, backoff: float) -> bool:
        """Wait before the next start; return False if the pod is stopped meanwhile."""
        record, pod = self._record, self._pod
        if backoff:
            terminated_state, pod_name = record.state, f"{pod.meta.name}_{pod.meta.namespace}({pod.meta.uid})"
            message = f"back-off {backoff:.0f}s restarting failed container={record.name} pod={pod_name}"
            record.set_waiting("CrashLoopBackOff", message)
            await pod.emit_warning("BackOff", f"Back-off restarting failed container {record.name} in pod {pod_name}")
            await pod.status_writer.publish_if_changed()
            await pod.run_until_stopped(asyncio.sleep(backoff))
            if pod.stopping.is_set():
                record.state = terminated_state
                return False
        record.count_restart()
        return True

    async def _start_when_possible(self) -> ExitFuture | None:
        """Start the container; return None if that is impossible, with the reason in the record."""
        while not self._pod.stopping.is_set():
            try:
                return await self._try_start()
            except MissingConfig as error:
                await self._report_waiting("CreateContainerConfigError", error)
                await self._pod.wait_for_config(error)
                await self._pod.refresh_config_data()
            except (UnsupportedPodSpec, OSError) as error:
                if self._record.is_ephemeral:  # nobody can correct it, and `kubectl debug` waits for it
                    await self._report_start_error(error)
                    break
                await self._report_waiting("CreateContainerError", error)
                await self._pod.stopping.wait()
            except AgentRequestFailed as error:
                await self._report_start_error(error)
                break
        return None

    async def _report_start_error(self, error: Exception) -> None:
        if self._pod.stopping.is_set():
            return
        self._record.set_terminated(self._pod.now_timestamp(), _START_FAILED_EXIT, "StartError", str(error))
        message = f'Error: failed to start container "{self._record.name}": {error}'
        await self._pod.emit_warning("Failed", message)
        await self._report_missing_directory(str(error))

    async def _report_waiting(self, reason: str, error: Exception) -> None:
        self._record.set_waiting(reason, str(error))
        await self._pod.emit_warning("Failed", f"Error: {error}")
        await self._pod.status_writer.publish_if_changed(even_if_held=True)

    async def _try_start(self) -> ExitFuture:
        pod, record = self._pod, self._record
        log_path = self._log_path = pod.deps.logs.create_run_log(pod.meta.uid, record.name, record.restart_count)
        run_name = self._run_name
        try:
            validate_handlers(record.spec)
            config = self._build_config(log_path)
            if record.spec.get("stdin") or record.spec.get("tty"):
                stdin_path = log_path.with_suffix(".input")
                pod.deps.stdin.create_pipe(pod.meta.uid, run_name, record.spec, stdin_path)
                config["stdin_path"] = str(stdin_path)
                config["tty"] = bool(record.spec.get("tty"))
            exit_future = await pod.deps.agent.start_container(pod.meta.uid, run_name, config)
        except BaseException:
            self._clean_up_run(run_name, log_path)
            raise
        exit_future.add_done_callback(lambda _: self._clean_up_run(run_name, log_path))
        pod.register_running_container(run_name)
        return exit_future

    def _clean_up_run(self, run_name: str, log_path: Path) -> None:
        self._pod.running_containers.discard(run_name)
        self._pod.deps.logs.mark_log_complete(log_path)
        self._pod.deps.stdin.close_pipe(self._pod.meta.uid, run_name)
        self._pod.deps.cpu_allocator.release((self._pod.meta.uid, run_name))

    def _build_config(self, log_path: Path) -> ContainerConfig:
        pod, spec, filesystem = self._pod, self._record.spec, self._pod.deps.filesystem
        env = filesystem.base_variables(pod.hostname, pod.resolved_pod)
        env = variables.build_environment(spec, pod.resolved_pod, env)
        env |= pod.deps.gpus.visible_devices_env(pod.meta.uid, pod.resolved_pod.pod["spec"], self._record.name)
        if spec.get("tty"):
            env.setdefault("TERM", "xterm")
        argv = variables.build_command_line(spec, env)
        if not argv:
            field = "initContainers" if self._record.is_init else "containers"
            field = "ephemeralContainers" if self._record.is_ephemeral else field
            fix = f"set `command` of container {spec['name']!r}"
            raise UnsupportedPodSpec(f"spec.{field}: {fix}; this cluster does not run images")
        limits = (spec.get("resources") or {}).get("limits") or {}
        cpu_limit = parse_quantity(limits.get("cpu") or 0)
        self._mounts = [
            *filesystem.container_mounts(spec, pod.meta.uid, pod.volumes, env),
            create_message_mount(spec, log_path),
        ]
        config = ContainerConfig(
            argv=argv,
            env=env,
            working_dir=str(spec.get("workingDir") or filesystem.working_dir(pod.resolved_pod.pod)),
            log_path=str(log_path),
            mounts=self._mounts,
            memory_limit=math.ceil(parse_quantity(limits.get("memory") or 0)),
            cpu_limit=float(cpu_limit),
            cpuset=pod.deps.cpu_allocator.allocate((pod.meta.uid, self._run_name), cpu_limit),
        )
        if target := spec.get("targetContainerName"):
            config["target_run"] = f"{target}/{pod.status_writer.restart_count(target)}"
        return config


def termination_grace_seconds(pod_spec: Mapping[str, Any]) -> float:
    """Return the termination grace period of a pod in seconds."""
    grace_period = pod_spec.get("terminationGracePeriodSeconds")
    return 30.0 if grace_period is None else float(grace_period)


async def _wait_first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
