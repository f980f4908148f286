"""The kubelet: runs the pods bound to the nodes of this machine and deletes terminated pods."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pliant.embedded.kubelet.pods.context import KubeletDependencies, PodContext
from pliant.embedded.kubelet.pods.worker import PodWorker
from pliant.embedded.object_views import PodObjectMeta, PodView
from pliant.embedded.retries import retry_until_answered
from pliant.errors import Conflict, Forbidden, NotFound
from pliant.kube.resources import PODS

DEFAULT_POD_GRACE_SECONDS = 30

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TrackedPod:
    """A pod from its binding to the removal of its object."""

    worker: PodWorker
    node: str
    task: asyncio.Task[None] | None = None
    is_finished: bool = False
    is_killed: bool = False
    is_terminating: bool = False
    is_deleted: bool = False

    @property
    def meta(self) -> PodObjectMeta:
        return self.worker.context.meta


class Kubelet:
    """Runs one worker for each pod; several virtual nodes share the kubelet, as they share the agent.

    `on_pod_change` may be called as soon as `run` has started.
    """

    def __init__(self, deps: KubeletDependencies, node_capacities: Mapping[str, Mapping[str, str]]) -> None:
        self._deps = deps
        self._node_capacities = node_capacities
        self._node_deps = {node: deps.for_node(node) for node in node_capacities}
        self._tracked_pods: dict[str, _TrackedPod] = {}
        """Pods by uid."""
        self._disconnected_nodes: set[str] = set()
        """Nodes with a simulated failure: they neither receive changes of pods nor report their status."""
        self._recovered_nodes: set[str] = set()
        """Nodes that were disconnected before."""
        self._is_shutting_down = False
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the workers of all pods until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        """Start, terminate or forget a pod whose object has changed."""
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_gone and old.spec.node_name not in self._disconnected_nodes:
            self._forget_pod(old.metadata)
        if new is None or new.spec.node_name in self._disconnected_nodes:
            return
        if new.spec.node_name not in self._node_capacities:
            return
        tracked = self._tracked_pods.get(new.metadata.uid)
        if tracked is None:
            if self._is_shutting_down or (new.is_finished and new.metadata.deletion_timestamp is None):
                return
            tracked = self._track_pod(new)
        if new.spec.ephemeral_containers:
            tracked.worker.ephemeral_containers.request(len(new.spec.ephemeral_containers))
        if new.metadata.deletion_timestamp is not None:
            self._terminate_pod(tracked, new.metadata)

    async def shut_down(self) -> None:
        """Terminate all pods within their grace periods, as a kubelet does when its machine shuts down."""
        self._is_shutting_down = True
        unfinished = [tracked for tracked in self._tracked_pods.values() if not tracked.is_finished]
        for tracked in unfinished:
            if tracked.node in self._disconnected_nodes:
                tracked.worker.context.stop_containers(0)  # processes that are paused cannot terminate themselves
            else:
                tracked.worker.shut_down()
        if tasks := [tracked.task for tracked in unfinished if tracked.task is not None]:
            await asyncio.wait(tasks)

    def simulate_node_crash(self, node: str) -> None:
        """Simulate the crash of a node: kill all its processes without any report."""
        for tracked in self._disconnect_node(node):
            tracked.is_killed = not tracked.is_finished
            tracked.worker.context.stop_containers(0)

    def simulate_node_partition(self, node: str) -> None:
        """Simulate a network partition of a node: stop all its processes (SIGSTOP) without any report."""
        for tracked in self._disconnect_node(node):
            self._deps.agent.signal_pod(tracked.meta.uid, signal.SIGSTOP)

    async def recover_node(self, node: str, list_pods: Callable[[], Iterable[PodView]]) -> None:
        """Reconnect a node: continue its paused pods, and run or finish its killed pods as their objects demand."""
        for tracked in self._pods_on_node(node):
            if tracked.is_killed and tracked.task is not None:
                await asyncio.wait([tracked.task])
        if self._deps.agent.is_lost:
            return  # The agent was lost again; its next restart recovers the node.
        self._disconnected_nodes.discard(node)
        self._recovered_nodes.add(node)
        present = {pod.metadata.uid: pod for pod in list_pods() if pod.spec.node_name == node}
        for tracked in self._pods_on_node(node):
            uid, status_writer = tracked.meta.uid, tracked.worker.context.status_writer
            if tracked.is_killed:
                del self._tracked_pods[uid]
            if uid not in present:
                self._forget_pod(tracked.meta)
            elif not tracked.is_killed:
                status_writer.node_connected.set()
                self._deps.agent.signal_pod(uid, signal.SIGCONT)
                self._create_task(status_writer.publish_if_changed())
        for pod in present.values():
            self.on_pod_change(None, pod)

    def publish_changed_statuses(self, node: str) -> None:
        """Write the status of the pods of a node whose GPUs became faulty or recovered."""
        for writer in [each.worker.context.status_writer for each in self._pods_on_node(node) if not each.is_finished]:
            if writer.has_published:
                self._create_task(writer.publish_if_changed())

    def republish_statuses(self, node: str) -> None:
        """Write the status of all pods of a node again: controllers changed it while the node was disconnected."""
        for tracked in self._pods_on_node(node):
            if not tracked.is_finished:
                self._create_task(tracked.worker.context.status_writer.republish())

    def _disconnect_node(self, node: str) -> list[_TrackedPod]:
        self._disconnected_nodes.add(node)
        pods = self._pods_on_node(node)
        for tracked in pods:
            tracked.worker.context.status_writer.node_connected.clear()
        return pods

    def _pods_on_node(self, node: str) -> list[_TrackedPod]:
        return [tracked for tracked in self._tracked_pods.values() if tracked.node == node]

    def _track_pod(self, pod: PodView) -> _TrackedPod:
        node = pod.spec.node_name
        context = PodContext(pod, self._node_deps[node], self._node_capacities[node])
        # Pods of an earlier cluster were tracked when this one started.
        interruption = "the node restarted" if node in self._recovered_nodes else "the cluster stopped"
        tracked = _TrackedPod(PodWorker(context, interruption), node, is_finished=pod.is_finished)
        self._tracked_pods[pod.metadata.uid] = tracked
        if not tracked.is_finished:
            tracked.task = self._create_task(self._run_pod(tracked))
        return tracked

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "a pod changed before the kubelet ran"
        return self._tasks.create_task(coroutine)

    async def _run_pod(self, tracked: _TrackedPod) -> None:
        try:
            await tracked.worker.run()
        except (NotFound, Forbidden):  # a node may not read a pod that is not its own any more
            log.info("pod was deleted before it ran", extra={"pod": tracked.meta.name})
        tracked.is_finished = True
        if tracked.is_deleted:
            await self._remove_pod_files(tracked.meta.uid)
        elif tracked.is_terminating and tracked.node not in self._disconnected_nodes:
            await self._delete_pod_object(tracked)

    def _terminate_pod(self, tracked: _TrackedPod, pod: PodObjectMeta) -> None:
        grace_period = pod.deletion_grace_period_seconds
        was_terminating, tracked.is_terminating = tracked.is_terminating, True
        if not tracked.is_finished:
            tracked.worker.context.stop_containers(DEFAULT_POD_GRACE_SECONDS if grace_period is None else grace_period)
        elif not was_terminating:
            self._create_task(self._delete_pod_object(tracked))

    async def _delete_pod_object(self, tracked: _TrackedPod) -> None:
        """Delete the object of a terminated pod."""
        pod, client = tracked.meta, tracked.worker.context.deps.client
        delete = partial(client.delete, PODS, pod.namespace, pod.name, uid=pod.uid, grace_period_seconds=0)
        try:
            await retry_until_answered(delete)
        except (NotFound, Conflict, Forbidden):
            return  # It is already gone, or another pod has its name, perhaps on another node.

    def _forget_pod(self, pod: PodObjectMeta) -> None:
        """Kill a pod whose object is gone, and remove its files."""
        tracked = self._tracked_pods.pop(pod.uid, None)
        if tracked is None or tracked.is_finished:
            self._create_task(self._remove_pod_files(pod.uid))
            return
        tracked.is_deleted = True
        tracked.worker.context.stop_containers(0)

    async def _remove_pod_files(self, pod_uid: str) -> None:
        """Remove the files of a pod, except logs that are retained."""
        if (retained := self._deps.retained_logs) is not None:
            await retained.retain(pod_uid, self._deps.logs.logs_dir(pod_uid))
        # In a thread: the removal of many files would block the event loop.
        await asyncio.to_thread(self._deps.filesystem.remove_pod_files, pod_uid)
