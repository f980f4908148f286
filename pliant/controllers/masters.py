"""Follows what the masters of jobs do by themselves: the plans they write, and the pods they make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.controllers.nodes import NODE, nodes_of
from pliant.controllers.orphans import JOB_NAME, masters_names
from pliant.controllers.plans import JOB, PlanDesk, plan_key, plan_resource
from pliant.controllers.served import wait_served
from pliant.frontends.base import Frontend, PlanKind
from pliant.kube.client import KubeClient
from pliant.kube.joined import AnyInformer, informer_of
from pliant.kube.objects import Pod
from pliant.kube.resources import PODS, Resource
from pliant.kube.store import ObjectStore
from pliant.model.job import JobKey
from pliant.model.labels import MANAGED_BY, MANAGER
from pliant.runtime.clock import Clock

OWNER = "owner"
"""The index of pods and services by the uid of their owner."""


@dataclass(frozen=True, slots=True)
class Masters:
    """What jobs of a kind have beside members of ours, if they have masters of their own."""

    desk: PlanDesk
    pods: ObjectStore[Pod]
    """What masters made by themselves, by whichever owner they name."""


class MastersWatch:
    """Keeps plans and pods of masters of one kind of job known, and has jobs looked at when they change."""

    def __init__(
        self,
        frontend: Frontend,
        kind: PlanKind,
        client: KubeClient,
        clock: Clock,
        namespaces: Sequence[str],
        wake: Callable[[JobKey], None],
    ) -> None:
        self._kind = kind
        jobs = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        self._jobs = jobs
        self._client = client
        self._wake = wake
        self._resource = plan_resource(kind)
        self.plans: AnyInformer[dict[str, Any]] = informer_of(
            client,
            self._resource,
            dict,
            namespaces=namespaces,
            indexes={JOB: lambda raw: (str(plan_key(kind, raw)),)},
            on_change=self._plan_changed,
        )
        self.pods: AnyInformer[Pod] = informer_of(
            client,
            PODS,
            Pod,
            namespaces=namespaces,
            labels=f"{frontend.foreign_pods},{MANAGED_BY}!={MANAGER}",
            indexes={OWNER: _owners, NODE: nodes_of, JOB_NAME: masters_names},
            on_change=self._pod_changed,
        )
        self.desk = PlanDesk(kind, jobs, client, clock, self.plans.store)
        self.known = Masters(self.desk, self.pods.store)

    async def follow(self, tasks: asyncio.TaskGroup, informers: dict[str, AnyInformer[Any]]) -> None:
        """Return once all there is is known; plans that the cluster does not know are looked for on and on."""
        seen = asyncio.Event()
        tasks.create_task(self.pods.run())
        informers[f"{PODS.full_name} of {self._jobs.full_name}"] = self.pods
        tasks.create_task(self._follow_plans(tasks, informers, seen))
        # A plan under way that is not seen would be taken to be over.
        await asyncio.gather(self.pods.wait_synced(), seen.wait())

    def node_changed(self, names: Iterable[str]) -> None:
        """A node fell ill or recovered: jobs whose masters have pods on it must be looked at."""
        for pod in (pod for name in names for pod in self.pods.store.by_index(NODE, name)):
            self._pod_changed(None, pod)

    async def _follow_plans(
        self, tasks: asyncio.TaskGroup, informers: dict[str, AnyInformer[Any]], seen: asyncio.Event
    ) -> None:
        await wait_served(self._client, self._resource, seen.set)
        informers[self._resource.full_name] = self.plans
        tasks.create_task(self.plans.run())
        await self.plans.wait_synced()
        seen.set()

    def _plan_changed(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> None:
        if new is None and old is not None:
            self.desk.forget(old)
        for key in {plan_key(self._kind, raw) for raw in (old, new) if raw is not None}:
            self._wake(key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            for ref in pod.metadata.owner_references if pod is not None else ():
                if pod is not None and (ref.api_version, ref.kind) == (self._jobs.api_version, self._jobs.kind):
                    self._wake(JobKey(pod.metadata.namespace, ref.name))


def _owners(pod: Pod) -> Iterable[str]:
    return (ref.uid for ref in pod.metadata.owner_references)
