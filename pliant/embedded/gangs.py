"""Pods that start together or not at all, as their PodGroup says."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import msgspec

from pliant.embedded.patience import TURNED_DOWN, patiently
from pliant.embedded.views import PodView
from pliant.kube.client import KubeClient
from pliant.kube.informer import Informer
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import Resource

COSCHEDULING: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
VOLCANO: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
DIALECTS: Final = (COSCHEDULING, VOLCANO)
SCHEDULERS: Final = frozenset({"scheduler-plugins-scheduler", "volcano"})
"""Schedulers that know such groups; pods that ask for them are placed here all the same."""
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
_WAITING: Final = {COSCHEDULING: "Scheduling", VOLCANO: "Inqueue"}
_PLACED: Final = "Running"

log = logging.getLogger(__name__)


class GangKey(NamedTuple):
    """The only way to name a gang."""

    dialect: Resource
    namespace: str
    name: str


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 0


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""


class PodGroupView(msgspec.Struct, frozen=True):
    """A PodGroup of either dialect: how many of its pods must start at once."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


def gang_of(pod: PodView) -> GangKey | None:
    """The gang a pod belongs to, if any."""
    meta = pod.metadata
    if name := meta.labels.get(_LABEL):
        return GangKey(COSCHEDULING, meta.namespace, name)
    names = (meta.annotations.get(each) for each in _ANNOTATIONS)
    name = next(filter(None, names), None)
    return GangKey(VOLCANO, meta.namespace, name) if name else None


class Gangs:
    """Knows every gang's least size and how many of its pods have a place; tells the groups how they fare."""

    def __init__(self, client: KubeClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._groups: dict[GangKey, PodGroupView] = {}
        self._placed: dict[GangKey, set[str]] = defaultdict(set)
        """Pods with a node, by uid; those that have done their work count too."""
        self._changed: asyncio.Queue[GangKey] = asyncio.Queue()

    async def run(self) -> None:
        """Write the phases of groups until cancelled."""
        while True:
            key = await self._changed.get()
            group = self._groups.get(key)
            if group is not None and group.status.phase != self._phase(key):
                await self._tell(key, group)

    def group_changed(self, dialect: Resource, old: PodGroupView | None, new: PodGroupView | None) -> None:
        """Take in what became of a PodGroup."""
        group = new or old
        assert group is not None, "a change of nothing"
        key = GangKey(dialect, group.metadata.namespace, group.metadata.name)
        if new is None:
            self._groups.pop(key, None)
        else:
            self._groups[key] = new
            self._changed.put_nowait(key)
        if old is None or new is None or old.spec != new.spec:
            self._on_change()

    def pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        """Take in what became of a pod."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._count(old, has_place=False)
        if new is not None:
            self._count(new, has_place=bool(new.spec.node_name) and new.status.phase != "Failed")

    def least(self, key: GangKey) -> int | None:
        """How many pods of a gang must have a place at the same time; None when there is no such group."""
        group = self._groups.get(key)
        return None if group is None else group.spec.min_member

    def placed(self, key: GangKey) -> int:
        """How many have one."""
        return len(self._placed.get(key, ()))

    def _count(self, pod: PodView, *, has_place: bool) -> None:
        key = gang_of(pod)
        if key is None or has_place == (pod.metadata.uid in self._placed[key]):
            return
        (self._placed[key].add if has_place else self._placed[key].discard)(pod.metadata.uid)
        if not self._placed[key]:
            del self._placed[key]
        self._changed.put_nowait(key)

    def _phase(self, key: GangKey) -> str:
        is_placed = 0 < self.placed(key) >= (self.least(key) or 0)
        return _PLACED if is_placed else _WAITING[key.dialect]

    async def _tell(self, key: GangKey, group: PodGroupView) -> None:
        patch = {"metadata": {"uid": group.metadata.uid}, "status": {"phase": self._phase(key)}}
        write = partial(self._client.patch, *key, patch, subresource="status")
        try:
            await patiently(write)
        except TURNED_DOWN as refusal:
            log.info("group not told", extra={"group": f"{key.namespace}/{key.name}", "because": str(refusal)})


def groups_of(dialect: Resource, client: KubeClient, gangs: Gangs) -> Informer[PodGroupView]:
    """Tells gangs of the PodGroups of one dialect."""
    return Informer(client, dialect, PodGroupView, on_change=partial(gangs.group_changed, dialect))
