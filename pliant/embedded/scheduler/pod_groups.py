"""Gang scheduling: PodGroups of the coscheduling plugin and of Volcano."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from pliant.embedded.object_views import PodView
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, retry_until_answered
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import Resource

COSCHEDULING_POD_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
POD_GROUP_RESOURCES: Final = (COSCHEDULING_POD_GROUPS, VOLCANO_POD_GROUPS)
GANG_SCHEDULER_NAMES: Final = frozenset({"scheduler-plugins-scheduler", "volcano"})
"""Schedulers with gang scheduling; the embedded scheduler also schedules the pods that name them."""
_POD_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_POD_GROUP_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_PENDING_PHASES: Final = {COSCHEDULING_POD_GROUPS: "Scheduling", VOLCANO_POD_GROUPS: "Inqueue"}
_SCHEDULED_PHASE: Final = "Running"

log = logging.getLogger(__name__)


class GangKey(NamedTuple):
    resource: Resource
    namespace: str
    name: str


class _PodGroupSpec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class _PodGroupStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class PodGroupView(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _PodGroupSpec = _PodGroupSpec()
    status: _PodGroupStatus = _PodGroupStatus()


def gang_of(pod: PodView) -> GangKey | None:
    meta = pod.metadata
    if name := meta.labels.get(_POD_GROUP_LABEL):
        return GangKey(COSCHEDULING_POD_GROUPS, meta.namespace, name)
    names = (meta.annotations.get(each) for each in _POD_GROUP_ANNOTATIONS)
    name = next(filter(None, names), None)
    return GangKey(VOLCANO_POD_GROUPS, meta.namespace, name) if name else None


def needs_pod_group(pod: PodView, gang: GangKey) -> bool:
    """Return whether a pod waits for a PodGroup that does not exist: other schedulers ignore Volcano's annotation."""
    return gang.resource is COSCHEDULING_POD_GROUPS or pod.spec.scheduler_name in GANG_SCHEDULER_NAMES


class PodGroupController:
    """Tracks the PodGroups and their scheduled pods, and writes the phase of each group."""

    def __init__(self, client: KubeClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._groups: dict[GangKey, PodGroupView] = {}
        self._scheduled: dict[GangKey, set[str]] = defaultdict(set)
        """Uids of pods that are assigned to a node and have not failed."""
        self._changed: asyncio.Queue[GangKey] = asyncio.Queue()

    async def run(self) -> None:
        while True:
            key = await self._changed.get()
            group = self._groups.get(key)
            if group is not None and group.status.phase != self._desired_phase(key):
                await self._write_phase(key, group)

    def on_pod_group_change(self, resource: Resource, old: PodGroupView | None, new: PodGroupView | None) -> None:
        group = new or old
        assert group is not None
        key = GangKey(resource, group.metadata.namespace, group.metadata.name)
        if new is None:
            self._groups.pop(key, None)
        else:
            self._groups[key] = new
            self._changed.put_nowait(key)
        if old is None or new is None or old.spec != new.spec:
            self._on_change()

    def on_pod_change(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._track_pod(old, is_scheduled=False)
        if new is not None:
            self._track_pod(new, is_scheduled=bool(new.spec.node_name) and new.status.phase != "Failed")

    def min_member(self, key: GangKey) -> int | None:
        """Return the minMember of a gang; None if its PodGroup does not exist."""
        group = self._groups.get(key)
        return None if group is None else group.spec.min_member

    def scheduled_count(self, key: GangKey) -> int:
        return len(self._scheduled.get(key, ()))

    def _track_pod(self, pod: PodView, *, is_scheduled: bool) -> None:
        key = gang_of(pod)
        if key is None or is_scheduled == (pod.metadata.uid in self._scheduled[key]):
            return
        (self._scheduled[key].add if is_scheduled else self._scheduled[key].discard)(pod.metadata.uid)
        if not self._scheduled[key]:
            del self._scheduled[key]
        self._changed.put_nowait(key)

    def _desired_phase(self, key: GangKey) -> str:
        is_scheduled = 0 < self.scheduled_count(key) >= (self.min_member(key) or 0)
        return _SCHEDULED_PHASE if is_scheduled else _PENDING_PHASES[key.resource]

    async def _write_phase(self, key: GangKey, group: PodGroupView) -> None:
        patch = {"metadata": {"uid": group.metadata.uid}, "status": {"phase": self._desired_phase(key)}}
        try:
            await retry_until_answered(partial(self._client.patch, *key, patch, subresource="status"))
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("group status not written", extra={"group": f"{key.namespace}/{key.name}", "error": str(error)})


def pod_group_informer(
    resource: Resource, client: KubeClient, controller: PodGroupController
) -> Informer[PodGroupView]:
    return Informer(client, resource, PodGroupView, on_change=partial(controller.on_pod_group_change, resource))
