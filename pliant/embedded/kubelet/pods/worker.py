"""Run one pod on a node: its sandbox, volumes, GPUs, init containers and containers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from pliant.embedded.kubelet.environment import variables
from pliant.embedded.kubelet.environment.capabilities import CAPABILITIES_REASON, capability_warnings
from pliant.embedded.kubelet.environment.config_objects import ConfigKey
from pliant.embedded.kubelet.environment.host_ports import PORT_CONFLICT_REASON
from pliant.embedded.kubelet.environment.variables import MissingConfig, PodObject, ResolvedPod, UnsupportedPodSpec
from pliant.embedded.kubelet.pods.container_runner import ContainerRunner, termination_grace_seconds
from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.ephemeral_containers import EphemeralContainers
from pliant.embedded.kubelet.pods.status import ContainerRecords, restore_ephemeral_records, restore_records
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed, ContainerExit
from pliant.embedded.retries import retry_until_answered
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE, pod_requested_gpus
from pliant.kube.resources import PODS

_KILLED_EXIT = ContainerExit(137, int(signal.SIGKILL))
_NODE_RESTARTED_REASON = "NodeRestarted"
_CREATING_REASON = "ContainerCreating"
_NODE_SHUTDOWN_REASON = "Terminated"
_NODE_SHUTDOWN_MESSAGE = "the cluster was stopped while the pod was running"


class PodWorker:
    """Starts a pod, restarts its containers by the restart policy, and terminates it."""

    def __init__(self, context: PodContext, interruption: str = "the cluster stopped") -> None:
        self.context = context
        self._interruption = interruption
        """Why containers that run by the status of the pod are not running."""
        self._restart_policy = "Always"
        self._grace_period = 30.0
        self.ephemeral_containers = EphemeralContainers(context)

    async def run(self) -> None:
        """Run the pod until no container runs or will run, and write its final status."""
        pod = self.context
        pod_object = await retry_until_answered(partial(pod.deps.client.get, PODS, pod.meta.namespace, pod.meta.name))
        if pod_object["metadata"]["uid"] != pod.meta.uid:
            return
        self._restart_policy = pod_object["spec"].get("restartPolicy") or "Always"
        self._grace_period = termination_grace_seconds(pod_object["spec"])
        init_records, main_records = restore_records(pod_object["spec"], pod_object.get("status") or {})
        pod.status_writer.initialize_from_pod(pod_object, init_records, main_records)
        pod.status_writer.ephemeral_records = restore_ephemeral_records(
            pod_object["spec"], pod_object.get("status") or {}
        )
        if self._may_run(init_records, main_records):
            await self._run_in_sandbox(pod_object, init_records, main_records)
        pod.cancel_kill_timer()
        pod.status_writer.mark_pod_stopped()
        await pod.status_writer.publish_if_changed()

    def shut_down(self) -> None:
        """Terminate the containers within the grace period of the pod, because the node shuts down.

        A pod that is not restarted by its kubelet has then failed. Others, and those that have not started, keep
        their status, so that they run again when the node is back.
        """
        writer = self.context.status_writer
        if self._restart_policy == "Never" and writer.has_started_containers:
            writer.set_failed(_NODE_SHUTDOWN_REASON, _NODE_SHUTDOWN_MESSAGE)
        else:
            writer.node_connected.clear()
        self.context.stop_containers(self._grace_period)

    def _may_run(self, init_records: ContainerRecords, main_records: ContainerRecords) -> bool:
        """Return whether to run the pod, after its interrupted containers were recorded as killed."""
        for record in self.context.status_writer.ephemeral_records:
            if record.is_running:
                message = f"{self._interruption} while the container was running"
                record.set_terminated(self.context.now_timestamp(), _KILLED_EXIT, _NODE_RESTARTED_REASON, message)
        records = (*init_records, *main_records)
        interrupted = [record for record in records if record.is_running]
        message = f"{self._interruption} while the container was running"
        for record in interrupted:
            record.set_terminated(self.context.now_timestamp(), _KILLED_EXIT, _NODE_RESTARTED_REASON, message)
        if interrupted and self._restart_policy == "Never":
            message = f"{self._interruption} while the pod was running"
            self.context.status_writer.set_failed(_NODE_RESTARTED_REASON, message)
            return False
        if self.context.stopping.is_set():
            return False
        for record in records:
            if record.terminated_state is not None and not record.has_succeeded:
                record.count_restart()
        return True

    async def _run_in_sandbox(self, pod_object: PodObject, inits: ContainerRecords, mains: ContainerRecords) -> None:
        pod, deps, pod_spec = self.context, self.context.deps, pod_object["spec"]
        await deps.services_synced.wait()
        uid, pod_key, own_network = (
            pod.meta.uid,
            f"{pod.meta.namespace}/{pod.meta.name}",
            not pod_spec.get("hostNetwork"),
        )
        try:
            address = await deps.agent.create_pod(uid, pod.hostname, own_address=own_network, pod_key=pod_key)
            deps.filesystem.write_pod_files(pod_object, pod.hostname, address)
        except (AgentRequestFailed, OSError) as error:
            message = f"Failed to create pod sandbox: {error}"
            await self._report_unrunnable(mains, "FailedCreatePodSandBox", message)
            return
        pod.status_writer.pod_ip = address
        await deps.publish_address(pod.meta, address)
        for warning in deps.host_ports.register(pod_object):
            await pod.emit_warning(PORT_CONFLICT_REASON, warning)
        for warning in capability_warnings(pod_spec):
            await pod.emit_warning(CAPABILITIES_REASON, warning)
        deadline = pod_spec.get("activeDeadlineSeconds")
        timer = asyncio.get_running_loop().call_later(deadline, self._fail_deadline_exceeded) if deadline else None
        mounted = [
            ConfigKey(kind, pod.meta.namespace, name) for kind, name in variables.mounted_config_objects(pod_spec)
        ]
        with deps.config_watch.subscribe(mounted) as config_changed:
            if await self._prepare_volumes(pod_object, address, mains) and await self._allocate_gpus(pod_spec):
                for warning in deps.filesystem.pod_network.unmountable_path_warnings(pod_spec):
                    await pod.emit_warning("FailedMount", warning)
                await self._run_containers(inits, mains, config_changed)
        if timer is not None:
            timer.cancel()
        deps.host_ports.release(uid)
        await deps.agent.remove_pod(uid)
        pod.status_writer.keep_device_statuses()
        await deps.gpus.release(uid)
        await deps.filesystem.remove_volumes(uid)

    async def _run_containers(
        self, inits: ContainerRecords, mains: ContainerRecords, config_changed: asyncio.Event
    ) -> None:
        """Run the init containers in order and then the others; sidecars are stopped last, in reverse order."""
        async with asyncio.TaskGroup() as tasks:
            refresh = tasks.create_task(self._refresh_volumes_on_change(config_changed))
            self.ephemeral_containers.run_in(tasks)
            sidecars: list[ContainerRunner] = []
            if await self._run_init_containers(inits, sidecars, tasks):
                await self._run_main_containers(mains)
            # No container is started any more, and sidecars have the grace period of the pod to exit.
            self.context.stop_containers(self._grace_period)
            self.ephemeral_containers.run_in(None)
            for sidecar in reversed(sidecars):
                await sidecar.stop_sidecar()
            refresh.cancel()

    async def _refresh_volumes_on_change(self, config_changed: asyncio.Event) -> None:
        """Update mounted ConfigMaps and Secrets when they change; keep the old files if an update fails."""
        pod = self.context
        while True:
            await config_changed.wait()
            config_changed.clear()
            await pod.refresh_config_data()
            with suppress(MissingConfig, UnsupportedPodSpec, OSError):
                pod.deps.filesystem.refresh_config_volumes(pod.resolved_pod)

    async def _run_init_containers(
        self, init_records: ContainerRecords, sidecars: list[ContainerRunner], tasks: asyncio.TaskGroup
    ) -> bool:
        """Run the init containers, add the sidecars to `sidecars`, and return whether the others may start."""
        pod = self.context
        for record in init_records:
            pod.status_writer.hold_writes_until_started(1)
            runner = ContainerRunner(pod, record)
            if record.is_sidecar:
                sidecars.append(runner)
                tasks.create_task(runner.run_with_restarts("Always"))
                if not await runner.wait_started():
                    return False
            elif not await runner.run_with_restarts("Never" if self._restart_policy == "Never" else "OnFailure"):
                return False
        return not pod.stopping.is_set()

    async def _run_main_containers(self, main_records: ContainerRecords) -> None:
        records = [record for record in main_records if self._restart_policy == "Always" or not record.has_succeeded]
        self.context.status_writer.hold_writes_until_started(len(records))
        async with asyncio.TaskGroup() as tasks:
            for record in records:
                tasks.create_task(ContainerRunner(self.context, record).run_with_restarts(self._restart_policy))

    async def _prepare_volumes(self, pod_object: PodObject, pod_ip: str, main_records: ContainerRecords) -> bool:
        """Prepare the volumes when all their sources exist; return False if the pod is stopped before that."""
        pod = self.context
        while not pod.stopping.is_set():
            pod.resolved_pod = ResolvedPod(
                pod=pod_object,
                address=pod_ip,
                host_address=pod.deps.agent.gateway_address,
                node_capacity=pod.node_capacity,
                config_data=await pod.config_reader.read_referenced(pod_object["spec"]),
            )
            try:
                pod.volumes = pod.deps.filesystem.prepare_volumes(pod.resolved_pod)
            except MissingConfig as error:
                await self._report_missing_volume(main_records, str(error))
                await pod.wait_for_config(error)
                for record in main_records:
                    record.set_waiting(_CREATING_REASON)
            except (UnsupportedPodSpec, OSError) as error:
                await self._report_unrunnable(main_records, "FailedMount", str(error))
            else:
                return True
        return False

    async def _report_missing_volume(self, main_records: ContainerRecords, message: str) -> None:
        """Report what a volume waits for, also in the status: events are hard to find."""
        for record in main_records:
            record.set_waiting(_CREATING_REASON, message)
        await self.context.emit_warning("FailedMount", message)
        await self.context.status_writer.publish_if_changed()

    async def _allocate_gpus(self, pod_spec: Mapping[str, Any]) -> bool:
        """Wait for the GPUs of the pod; return False if the node has too few or the pod is stopped."""
        pod, gpus = self.context, self.context.deps.gpus
        requested, available = pod_requested_gpus(pod_spec), len(gpus.gpus_by_node.get(pod_spec["nodeName"], ()))
        if requested > available:
            message = (
                "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
                f"{GPU_RESOURCE}. Requested: {requested}, Available: {available}, which is unexpected"
            )
            pod.status_writer.set_failed("UnexpectedAdmissionError", message)
            return False
        if requested:
            await pod.run_until_stopped(gpus.wait_and_allocate(pod.meta.uid, pod_spec["nodeName"], requested))
            pod.status_writer.device_statuses = partial(gpus.device_statuses, pod.meta.uid, pod_spec)
        return not pod.stopping.is_set()

    async def _report_unrunnable(self, main_records: ContainerRecords, reason: str, message: str) -> None:
        """Report why the pod cannot run, and wait for its deletion."""
        for record in main_records:
            record.set_waiting("CreateContainerError", message)
        await self.context.emit_warning(reason, message)
        await self.context.status_writer.publish_if_changed()
        await self.context.stopping.wait()

    def _fail_deadline_exceeded(self) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        self.context.status_writer.set_failed("DeadlineExceeded", message)
        self.context.stop_containers(self._grace_period)
