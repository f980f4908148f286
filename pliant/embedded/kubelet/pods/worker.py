"""The life of one pod on a node, from its first process to its last."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pliant.embedded.kubelet.environment.config_objects import ConfigKey
from pliant.embedded.kubelet.environment.variables import (
    MissingConfig,
    ResolvedPod,
    UnsupportedPodSpec,
    mounted_objects,
)
from pliant.embedded.kubelet.pods.container_runner import ContainerRunner, termination_grace
from pliant.embedded.kubelet.pods.context import PodContext
from pliant.embedded.kubelet.pods.status import ContainerRecord, restore_records
from pliant.embedded.kubelet.runtime.node_agent import AgentRequestFailed, ContainerExit
from pliant.embedded.retries import with_retries
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE, pod_requested_gpus
from pliant.kube.resources import PODS

_KILLED_EXIT = ContainerExit(137, int(signal.SIGKILL))
_NODE_RESTARTED_REASON = "NodeRestarted"

ContainerRecords = Sequence[ContainerRecord]


class PodWorker:
    """Brings a pod up, keeps it as its restart policy says, and takes it down."""

    def __init__(self, context: PodContext, lost_message: str = "the cluster that ran {} has ended") -> None:
        self.context = context
        self._lost_message = lost_message
        """What became of those who ran it before, if anybody did."""
        self._restart_policy = "Always"
        self._grace_period = 30.0

    async def run(self) -> None:
        """Live until nothing of the pod runs or will run; its object then tells how it ended."""
        pod = self.context
        raw = await with_retries(partial(pod.deps.client.get, PODS, pod.meta.namespace, pod.meta.name))
        if raw["metadata"]["uid"] != pod.meta.uid:
            return
        self._restart_policy = raw["spec"].get("restartPolicy") or "Always"
        self._grace_period = termination_grace(raw["spec"])
        inits, mains = restore_records(raw["spec"], raw.get("status") or {})
        pod.status_writer.load(raw, inits, mains)
        if self._may_run(inits, mains):
            await self._run_in_sandbox(raw, inits, mains)
        pod.cancel_kill_timer()
        pod.status_writer.mark_stopped()
        await pod.status_writer.publish()

    def _may_run(self, init_records: ContainerRecords, main_records: ContainerRecords) -> bool:
        """Whether to run the pod: one whose processes ended with an earlier cluster may be over."""
        records = (*init_records, *main_records)
        lost = [each for each in records if each.is_running]
        for each in lost:
            each.set_terminated(
                self.context.now_timestamp(), _KILLED_EXIT, _NODE_RESTARTED_REASON, self._lost_message.format("it")
            )
        if lost and self._restart_policy == "Never":
            self.context.status_writer.set_failed(_NODE_RESTARTED_REASON, self._lost_message.format("this pod"))
            return False
        if self.context.stopping.is_set():
            return False
        for each in records:
            if each.terminated_state is not None and not each.has_succeeded:
                each.count_restart()
        return True

    async def _run_in_sandbox(
        self, pod_object: Mapping[str, Any], init_records: ContainerRecords, main_records: ContainerRecords
    ) -> None:
        pod, services = self.context, self.context.deps
        await services.services_synced.wait()
        try:
            own_network = not pod_object["spec"].get("hostNetwork")
            member = f"{pod.meta.namespace}/{pod.meta.name}"
            address = await services.agent.create_pod(
                pod.meta.uid, pod.hostname, own_network=own_network, pod_key=member
            )
            services.filesystem.write_pod_files(pod_object, pod.hostname, address)
        except (AgentRequestFailed, OSError) as problem:
            await self._report_unrunnable(
                main_records, "FailedCreatePodSandBox", f"the pod's network could not be made: {problem}"
            )
            return
        pod.status_writer.pod_ip = address
        limit = pod_object["spec"].get("activeDeadlineSeconds")
        expiry = asyncio.get_running_loop().call_later(limit, self._fail_deadline_exceeded) if limit else None
        shown = [ConfigKey(kind, pod.meta.namespace, name) for kind, name in mounted_objects(pod_object["spec"])]
        with services.config_watch.subscribe(shown) as news:
            if await self._prepare_volumes(pod_object, address, main_records) and await self._allocate_gpus(
                pod_object["spec"]
            ):
                for caveat in services.filesystem.pod_network.mount_warnings(pod_object["spec"]):
                    await pod.emit_warning("NotMounted", caveat)
                await self._run_containers(init_records, main_records, news)
        if expiry is not None:
            expiry.cancel()
        await services.agent.remove_pod(pod.meta.uid)
        await services.gpus.release(pod.meta.uid)
        await services.filesystem.remove_volumes(pod.meta.uid)

    async def _run_containers(
        self, init_records: ContainerRecords, main_records: ContainerRecords, config_changed: asyncio.Event
    ) -> None:
        """Run init containers in order and then the others; those that stay beside them end last, in reverse."""
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(self._refresh_volumes_on_change(config_changed))
            sidecars: list[ContainerRunner] = []
            if await self._run_init_containers(init_records, sidecars, tasks):
                await self._run_main_containers(main_records)
            # Nothing is started any more, and who stays beside the others has the pod's grace period to leave.
            self.context.stop(self._grace_period)
            for each in reversed(sidecars):
                await each.stop_sidecar()
            following.cancel()

    async def _refresh_volumes_on_change(self, config_changed: asyncio.Event) -> None:
        """Show changes of mounted configuration to the pod; one that cannot be shown leaves what was there."""
        pod = self.context
        while True:
            await config_changed.wait()
            config_changed.clear()
            assert pod.resolved_pod is not None
            pod.resolved_pod = pod.resolved_pod.with_config_data(
                await pod.config_reader.read_referenced(pod.resolved_pod.pod["spec"])
            )
            with suppress(MissingConfig, UnsupportedPodSpec, OSError):
                pod.deps.filesystem.refresh_volumes(pod.resolved_pod)

    async def _run_init_containers(
        self, init_records: ContainerRecords, sidecars: list[ContainerRunner], tasks: asyncio.TaskGroup
    ) -> bool:
        """Run the init containers; whether the others may start."""
        pod = self.context
        for each in init_records:
            pod.status_writer.hold_until_started(1)
            run = ContainerRunner(pod, each)
            if each.is_sidecar:
                sidecars.append(run)
                tasks.create_task(run.run_with_restarts("Always"))
                if not await run.wait_started():
                    return False
            elif not await run.run_with_restarts("Never" if self._restart_policy == "Never" else "OnFailure"):
                return False
        return not pod.stopping.is_set()

    async def _run_main_containers(self, main_records: ContainerRecords) -> None:
        wanted = [each for each in main_records if self._restart_policy == "Always" or not each.has_succeeded]
        self.context.status_writer.hold_until_started(len(wanted))
        async with asyncio.TaskGroup() as tasks:
            for each in wanted:
                tasks.create_task(ContainerRunner(self.context, each).run_with_restarts(self._restart_policy))

    async def _prepare_volumes(
        self, pod_object: Mapping[str, Any], pod_ip: str, main_records: ContainerRecords
    ) -> bool:
        """Lay out volumes as soon as all they are made of is there; false when the pod is stopped before that."""
        pod = self.context
        while not pod.stopping.is_set():
            pod.resolved_pod = ResolvedPod(
                pod=pod_object,
                address=pod_ip,
                host_address=pod.deps.agent.address,
                node_capacity=pod.node_capacity,
                config_data=await pod.config_reader.read_referenced(pod_object["spec"]),
            )
            try:
                pod.volumes = pod.deps.filesystem.prepare_volumes(pod.resolved_pod)
            except MissingConfig as problem:
                await pod.emit_warning("FailedMount", f"MountVolume.SetUp failed: {problem}")
                await pod.wait_unless_stopped(
                    pod.config_reader.wait_for_change(problem.kind, problem.name, pod.resolved_pod.config_data)
                )
            except (UnsupportedPodSpec, OSError) as problem:
                await self._report_unrunnable(main_records, "FailedMount", str(problem))
            else:
                return True
        return False

    async def _allocate_gpus(self, pod_spec: Mapping[str, Any]) -> bool:
        """Wait until nobody else has the GPUs that are meant for the pod; false when it will not have them."""
        pod, gpus = self.context, self.context.deps.gpus
        wanted, there = pod_requested_gpus(pod_spec), len(gpus.gpus_by_node.get(pod_spec["nodeName"], ()))
        if wanted > there:
            why = f"Allocate failed due to requested number of devices unavailable for {GPU_RESOURCE}. "
            pod.status_writer.set_failed(
                "UnexpectedAdmissionError", f"{why}Requested: {wanted}, Available: {there}, which is unexpected"
            )
            return False
        if wanted:
            await pod.wait_unless_stopped(gpus.allocate(pod.meta.uid, pod_spec["nodeName"], wanted))
        return not pod.stopping.is_set()

    async def _report_unrunnable(self, main_records: ContainerRecords, reason: str, message: str) -> None:
        """Tell why the pod cannot run and wait for somebody to take it away."""
        for each in main_records:
            each.set_waiting("CreateContainerError", message)
        await self.context.emit_warning(reason, message)
        await self.context.status_writer.publish()
        await self.context.stopping.wait()

    def _fail_deadline_exceeded(self) -> None:
        self.context.status_writer.set_failed(
            "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
        )
        self.context.stop(self._grace_period)
