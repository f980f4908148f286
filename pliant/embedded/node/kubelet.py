"""Runs the pods bound to this machine's nodes, and lets go of those that are to leave."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pliant.embedded.node.podrun import PodRun
from pliant.embedded.node.podscope import NodeServices, PodScope
from pliant.embedded.patience import patiently
from pliant.embedded.views import PodMeta, PodView
from pliant.errors import Conflict, NotFound
from pliant.kube.resources import PODS

DEFAULT_GRACE = 30
_RESTARTED = "the node that ran {} was restarted"

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Life:
    """One incarnation of a pod, known from its binding to the end of its object."""

    run: PodRun
    node: str
    task: asyncio.Task[None] | None = None
    is_over: bool = False
    is_killed: bool = False
    is_leaving: bool = False
    is_forgotten: bool = False


class Kubelet:
    """One life for each pod; several virtual nodes share it, as they share the agent.

    Hears of pods through `pod_changed`, which may be called as soon as `run` was entered.
    """

    def __init__(self, services: NodeServices, nodes: Mapping[str, Mapping[str, str]]) -> None:
        self._services = services
        self._nodes = nodes
        """What each node has to give."""
        self._lives: dict[str, _Life] = {}
        self._silent: set[str] = set()
        """Nodes that hear and tell nothing."""
        self._woken: set[str] = set()
        """Nodes that were out before."""
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Own the lives of all pods until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        is_gone = old is not None and (new is None or new.metadata.uid != old.metadata.uid)
        if old is not None and is_gone and old.spec.node_name not in self._silent:
            self._forget(old.metadata)
        if new is None or new.spec.node_name not in self._nodes or new.spec.node_name in self._silent:
            return
        life = self._lives.get(new.metadata.uid)
        if life is None:
            if new.is_finished and new.metadata.deletion_timestamp is None:
                return
            life = self._begin(new)
        if new.metadata.deletion_timestamp is not None:
            self._ask_to_leave(life, new.metadata)

    def kill(self, node: str) -> None:
        """End every process of a node at once, and let nobody hear of it."""
        for life in self._silenced(node):
            life.is_killed = not life.is_over
            life.run.scope.stop(0)

    def pause(self, node: str) -> None:
        """Let every process of a node stand still, and nobody hear of anything."""
        for life in self._silenced(node):
            self._services.agent.signal_all(life.run.scope.meta.uid, signal.SIGSTOP)

    async def wake(self, node: str, pods: Callable[[], Iterable[PodView]]) -> None:
        """Have a node back: what stood still goes on, what was killed is over or begins anew, as pods say."""
        for life in self._on(node):
            if life.is_killed and life.task is not None:
                await asyncio.wait([life.task])
        if self._services.agent.is_lost:
            return  # meanwhile, and again: whoever finds another agent comes back here
        self._silent.discard(node)
        self._woken.add(node)
        present = {pod.metadata.uid: pod for pod in pods() if pod.spec.node_name == node}
        for life in self._on(node):
            meta = life.run.scope.meta
            if life.is_killed:
                del self._lives[meta.uid]
            if meta.uid not in present:
                self._forget(meta)
            elif not life.is_killed:
                life.run.scope.report.audible.set()
                self._services.agent.signal_all(meta.uid, signal.SIGCONT)
                self._own(life.run.scope.report.publish())
        for pod in present.values():
            self.pod_changed(None, pod)

    def repeat(self, node: str) -> None:
        """Tell anew how the pods of a node are: others spoke for them while it was not heard."""
        for life in self._on(node):
            if not life.is_over:
                self._own(life.run.scope.report.repeat())

    def _silenced(self, node: str) -> list[_Life]:
        self._silent.add(node)
        for life in self._on(node):
            life.run.scope.report.audible.clear()
        return self._on(node)

    def _on(self, node: str) -> list[_Life]:
        return [life for life in self._lives.values() if life.node == node]

    def _begin(self, pod: PodView) -> _Life:
        scope = PodScope(pod, self._services, self._nodes[pod.spec.node_name])
        # Whatever another cluster left was seen when this one began.
        run = PodRun(scope, _RESTARTED) if pod.spec.node_name in self._woken else PodRun(scope)
        life = self._lives[pod.metadata.uid] = _Life(run, pod.spec.node_name, is_over=pod.is_finished)
        if not life.is_over:
            life.task = self._own(self._live(life))
        return life

    def _own(self, task: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "told of pods before it runs"
        return self._tasks.create_task(task)

    async def _live(self, life: _Life) -> None:
        """See a pod through to its end."""
        try:
            await life.run.run()
        except NotFound:
            log.info("pod vanished", extra={"pod": life.run.scope.meta.name})
        life.is_over = True
        if life.is_forgotten:
            await self._clear_away(life.run.scope.meta.uid)
        elif life.is_leaving and life.node not in self._silent:
            await self._let_go(life.run.scope.meta)

    def _ask_to_leave(self, life: _Life, pod: PodMeta) -> None:
        grace = pod.deletion_grace_period_seconds
        was_leaving, life.is_leaving = life.is_leaving, True
        if not life.is_over:
            life.run.scope.stop(DEFAULT_GRACE if grace is None else grace)
        elif not was_leaving:
            self._own(self._let_go(pod))

    async def _let_go(self, pod: PodMeta) -> None:
        """Say that nothing of a pod is left here, so that its object may go."""
        try:
            await patiently(
                partial(self._services.client.delete, PODS, pod.namespace, pod.name, uid=pod.uid, grace=0)
            )
        except (NotFound, Conflict):
            return  # It is gone already, or its name is another's now.

    def _forget(self, pod: PodMeta) -> None:
        """The object is gone: so must be whatever runs, and all that was kept of it."""
        life = self._lives.pop(pod.uid, None)
        if life is None or life.is_over:
            self._own(self._clear_away(pod.uid))
            return
        life.is_forgotten = True
        life.run.scope.stop(0)

    async def _clear_away(self, uid: str) -> None:
        # In a thread: a pod may have left more files than a loop can wait for.
        await asyncio.to_thread(self._services.furnishing.forget, uid)
