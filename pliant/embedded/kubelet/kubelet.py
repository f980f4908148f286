"""Runs the pods bound to this machine's nodes, and lets go of those that are to leave."""

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
from pliant.embedded.retries import with_retries
from pliant.errors import Conflict, NotFound
from pliant.kube.resources import PODS

DEFAULT_GRACE_SECONDS = 30
_NODE_RESTARTED_MESSAGE = "the node that ran {} was restarted"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TrackedPod:
    """One incarnation of a pod, known from its binding to the end of its object."""

    worker: PodWorker
    node: str
    task: asyncio.Task[None] | None = None
    is_finished: bool = False
    is_killed: bool = False
    is_terminating: bool = False
    is_deleted: bool = False


class Kubelet:
    """One life for each pod; several virtual nodes share it, as they share the agent.

    Hears of pods through `on_pod_change`, which may be called as soon as `run` was entered.
    """

    def __init__(self, deps: KubeletDependencies, node_capacities: Mapping[str, Mapping[str, str]]) -> None:
        self._deps = deps
        self._node_capacities = node_capacities
        """What each node has to give."""
        self._tracked_pods: dict[str, _TrackedPod] = {}
        self._disconnected_nodes: set[str] = set()
        """Nodes that hear and tell nothing."""
        self._recovered_nodes: set[str] = set()
        """Nodes that were out before."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own the lives of all pods until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_gone and old.spec.node_name not in self._disconnected_nodes:
            self._forget_pod(old.metadata)
        if (
            new is None
            or new.spec.node_name not in self._node_capacities
            or new.spec.node_name in self._disconnected_nodes
        ):
            return
        life = self._tracked_pods.get(new.metadata.uid)
        if life is None:
            if new.is_finished and new.metadata.deletion_timestamp is None:
                return
            life = self._track_pod(new)
        if new.metadata.deletion_timestamp is not None:
            self._terminate_pod(life, new.metadata)

    def kill_node(self, node: str) -> None:
        """End every process of a node at once, and let nobody hear of it."""
        for life in self._disconnect_node(node):
            life.is_killed = not life.is_finished
            life.worker.context.stop(0)

    def pause_node(self, node: str) -> None:
        """Let every process of a node stand still, and nobody hear of anything."""
        for life in self._disconnect_node(node):
            self._deps.agent.signal_pod(life.worker.context.meta.uid, signal.SIGSTOP)

    async def recover_node(self, node: str, list_pods: Callable[[], Iterable[PodView]]) -> None:
        """Have a node back: what stood still goes on, what was killed is over or begins anew, as pods say."""
        for life in self._pods_on_node(node):
            if life.is_killed and life.task is not None:
                await asyncio.wait([life.task])
        if self._deps.agent.is_lost:
            return  # meanwhile, and again: whoever finds another agent comes back here
        self._disconnected_nodes.discard(node)
        self._recovered_nodes.add(node)
        present = {pod.metadata.uid: pod for pod in list_pods() if pod.spec.node_name == node}
        for life in self._pods_on_node(node):
            meta = life.worker.context.meta
            if life.is_killed:
                del self._tracked_pods[meta.uid]
            if meta.uid not in present:
                self._forget_pod(meta)
            elif not life.is_killed:
                life.worker.context.status_writer.node_connected.set()
                self._deps.agent.signal_pod(meta.uid, signal.SIGCONT)
                self._create_task(life.worker.context.status_writer.publish())
        for pod in present.values():
            self.on_pod_change(None, pod)

    def republish_statuses(self, node: str) -> None:
        """Tell anew how the pods of a node are: others spoke for them while it was not heard."""
        for life in self._pods_on_node(node):
            if not life.is_finished:
                self._create_task(life.worker.context.status_writer.republish())

    def _disconnect_node(self, node: str) -> list[_TrackedPod]:
        self._disconnected_nodes.add(node)
        for life in self._pods_on_node(node):
            life.worker.context.status_writer.node_connected.clear()
        return self._pods_on_node(node)

    def _pods_on_node(self, node: str) -> list[_TrackedPod]:
        return [life for life in self._tracked_pods.values() if life.node == node]

    def _track_pod(self, pod: PodView) -> _TrackedPod:
        scope = PodContext(pod, self._deps, self._node_capacities[pod.spec.node_name])
        # Whatever another cluster left was seen when this one began.
        run = (
            PodWorker(scope, _NODE_RESTARTED_MESSAGE)
            if pod.spec.node_name in self._recovered_nodes
            else PodWorker(scope)
        )
        life = self._tracked_pods[pod.metadata.uid] = _TrackedPod(run, pod.spec.node_name, is_finished=pod.is_finished)
        if not life.is_finished:
            life.task = self._create_task(self._run_pod(life))
        return life

    def _create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "told of pods before it runs"
        return self._tasks.create_task(coroutine)

    async def _run_pod(self, tracked: _TrackedPod) -> None:
        """See a pod through to its end."""
        try:
            await tracked.worker.run()
        except NotFound:
            log.info("pod vanished", extra={"pod": tracked.worker.context.meta.name})
        tracked.is_finished = True
        if tracked.is_deleted:
            await self._remove_pod_files(tracked.worker.context.meta.uid)
        elif tracked.is_terminating and tracked.node not in self._disconnected_nodes:
            await self._confirm_deletion(tracked.worker.context.meta)

    def _terminate_pod(self, tracked: _TrackedPod, pod: PodObjectMeta) -> None:
        grace = pod.deletion_grace_period_seconds
        was_leaving, tracked.is_terminating = tracked.is_terminating, True
        if not tracked.is_finished:
            tracked.worker.context.stop(DEFAULT_GRACE_SECONDS if grace is None else grace)
        elif not was_leaving:
            self._create_task(self._confirm_deletion(pod))

    async def _confirm_deletion(self, pod: PodObjectMeta) -> None:
        """Say that nothing of a pod is left here, so that its object may go."""
        try:
            await with_retries(
                partial(self._deps.client.delete, PODS, pod.namespace, pod.name, uid=pod.uid, grace_period_seconds=0)
            )
        except (NotFound, Conflict):
            return  # It is gone already, or its name is another's now.

    def _forget_pod(self, pod: PodObjectMeta) -> None:
        """The object is gone: so must be whatever runs, and all that was kept of it."""
        life = self._tracked_pods.pop(pod.uid, None)
        if life is None or life.is_finished:
            self._create_task(self._remove_pod_files(pod.uid))
            return
        life.is_deleted = True
        life.worker.context.stop(0)

    async def _remove_pod_files(self, pod_uid: str) -> None:
        # In a thread: a pod may have left more files than a loop can wait for.
        await asyncio.to_thread(self._deps.filesystem.remove_pod, pod_uid)
