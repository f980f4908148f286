"""The one place that acts: one branch per action, each safe to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from pliant.controllers.events import EventRecorder
from pliant.controllers.grants import grant
from pliant.controllers.plans import PlanDesk
from pliant.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, NotYet
from pliant.kube.client import KubeClient
from pliant.kube.objects import ConfigMap, ObjectMeta, Pod, Service
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from pliant.kube.store import ObjectStore
from pliant.model.actions import (
    Action,
    CreateConfigMap,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePlan,
    DeletePod,
    DeleteService,
    EmitEvent,
    GrantAccess,
)
from pliant.model.job import Job
from pliant.model.labels import JOB, MANAGED_BY, MANAGER
from pliant.runtime.clock import Clock

REFUSED = (BadRequest, Forbidden, Invalid, NotYet)
"""Answers that asking again at once will not change."""

FIRST = CreateConfigMap | CreateService | GrantAccess
"""What members need to find when they start."""

T = TypeVar("T", bound=Pod | Service)
U = TypeVar("U", bound=Pod | Service | ConfigMap)


class Applier:
    """Carries out actions and shows their effect in the stores at once."""

    def __init__(
        self, client: KubeClient, clock: Clock, pods: ObjectStore[Pod], services: ObjectStore[Service]
    ) -> None:
        self.events = EventRecorder(client, clock)
        self._client = client
        self._pods = _Members(client, PODS, Pod, pods)
        self._services = _Members(client, SERVICES, Service, services)
        self._masters: dict[tuple[str, str], tuple[PlanDesk, _Members[Pod]]] = {}

    def serve_masters(self, kind: Resource, desk: PlanDesk, pods: ObjectStore[Pod]) -> None:
        """Serve jobs of a kind whose masters write plans, and perhaps make pods by themselves."""
        self._masters[kind.api_version, kind.kind] = desk, _Members(self._client, PODS, Pod, pods)

    async def apply(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Perform all actions, names before members; returns what could not be created, and why."""
        refusals = await self._wave(job, [action for action in actions if isinstance(action, FIRST)])
        lacks_files = any(isinstance(action, CreateConfigMap) and action.name in refusals for action in actions)
        # A member without its name would start and wait for peers who cannot find it, one without files for ever.
        others = [
            action
            for action in actions
            if not isinstance(action, FIRST)
            and not (isinstance(action, CreatePod) and (lacks_files or _is_lacking(action, refusals)))
        ]
        return refusals | await self._wave(job, others)

    async def _wave(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Perform actions side by side; the first failure that is not a refusal is raised when all are done."""
        ends = await asyncio.gather(*(self._one(job, action) for action in actions), return_exceptions=True)
        refusals: dict[str, str] = {}
        for action, end in zip(actions, ends, strict=True):
            if isinstance(end, REFUSED) and isinstance(action, CreatePod | FIRST):
                refusals[action.account if isinstance(action, GrantAccess) else action.name] = str(end)
            elif end is not None:
                raise end
        return refusals

    async def _one(self, job: Job, action: Action) -> None:
        match action:
            case CreatePod(manifest=manifest):
                await self._pods.create(job, manifest)
            case CreateService(manifest=manifest):
                await self._services.create(job, manifest)
            case CreateConfigMap(manifest=manifest):
                await _created(self._client, CONFIG_MAPS, ConfigMap, job, manifest)
            case DeletePod():
                await self._delete_pod(job, action)
            case DeleteService(name=name, uid=uid):
                await self._services.delete(job, name, uid)
            case DeletePlan():
                await self._desk(job).delete(job.key.namespace, action)
            case GrantAccess():
                await self._grant(job, action)
            case DeleteJob():
                await self._delete_job(job)
            case EmitEvent():
                self.events.tell(job.owner, job.key.namespace, action)
            case _:
                assert_never(action)

    async def _delete_pod(self, job: Job, action: DeletePod) -> None:
        """Let a pod go; its master is told first, if it is not to make another."""
        desk, made = self._masters.get((job.owner.api_version, job.owner.kind), (None, self._pods))
        members = self._pods if self._pods.has(job, action.name, action.uid) else made
        if action.is_for_good and desk is not None and not action.is_forced:
            await members.mark(job, action.name, action.uid, desk.kind.farewell)
        await members.delete(job, action.name, action.uid, grace=0 if action.is_forced else None)

    async def _grant(self, job: Job, action: GrantAccess) -> None:
        """Give a master its account; one of its author's own may have been given its rights by hand."""
        try:
            await grant(self._client, job, action, self._desk(job).resource)
        except Forbidden as refused:
            event = EmitEvent(reason="CannotGrant", message=str(refused), is_warning=True)
            self.events.tell(job.owner, job.key.namespace, event)
            if action.is_ours:
                raise

    def _desk(self, job: Job) -> PlanDesk:
        return self._masters[job.owner.api_version, job.owner.kind][0]

    async def _delete_job(self, job: Job) -> None:
        """Delete the job, and by owner references whatever it still holds; one of the same name is another."""
        owner = job.owner
        group, _, version = owner.api_version.rpartition("/")
        resource = Resource(group, version, owner.plural, owner.kind)
        with suppress(NotFound, Conflict):
            await self._client.delete(
                resource, job.key.namespace, owner.name, uid=owner.uid, propagation="Background"
            )


class _Members(Generic[T]):
    """Creates and deletes objects of one kind, whose names are theirs for ever and whose uids are not."""

    def __init__(self, client: KubeClient, resource: Resource, into: type[T], store: ObjectStore[T]) -> None:
        self._client = client
        self._resource = resource
        self._into = into
        self._store = store

    def has(self, job: Job, name: str, uid: str) -> bool:
        """Whether this incarnation is one of them."""
        known = self._store.get(job.key.namespace, name)
        return known is not None and known.metadata.uid == uid

    async def mark(self, job: Job, name: str, uid: str, labels: Mapping[str, str]) -> None:
        """Put labels onto this incarnation, unless it has them; one that is gone needs none."""
        known = self._store.get(job.key.namespace, name)
        if known is None or all(known.metadata.labels.get(label) == value for label, value in labels.items()):
            return
        patch = {"metadata": {"uid": uid, "labels": dict(labels)}}
        with suppress(NotFound, Conflict):
            marked = await self._client.patch(self._resource, job.key.namespace, name, patch, into=self._into)
            self._store.note_written(marked)

    async def create(self, job: Job, manifest: Mapping[str, Any]) -> None:
        """Create, or find that it has been created before: then it must be ours."""
        made = await _created(self._client, self._resource, self._into, job, manifest)
        if JOB not in made.metadata.labels:
            made = await self._taken_over(job, made.metadata, manifest)
        if made.metadata.labels.get(MANAGED_BY) != MANAGER:
            # Only what carries it is watched: what happens to this one would never be known.
            label = f"{MANAGED_BY}={MANAGER}"
            raise NotYet(
                f"it is there, but has lost its label {label}: put it back, or delete the {self._resource.kind}"
            )
        self._store.note_written(made)

    async def _taken_over(self, job: Job, meta: ObjectMeta, manifest: Mapping[str, Any]) -> T:
        """Make ours what another operator made for the same job: it gets our labels, and goes on as it is."""
        patch = {"metadata": {"uid": meta.uid, "labels": manifest["metadata"]["labels"]}}
        try:
            return await self._client.patch(self._resource, job.key.namespace, meta.name, patch, into=self._into)
        except (NotFound, Conflict) as gone:
            raise NotYet(f"{self._resource.kind} {meta.name} was in the way and is gone") from gone

    async def delete(self, job: Job, name: str, uid: str, *, grace: int | None = None) -> None:
        """Delete this incarnation; if another has taken the name, this one is gone already."""
        namespace = job.key.namespace
        try:
            left = await self._client.delete(self._resource, namespace, name, uid=uid, grace=grace)
        except (NotFound, Conflict):
            self._store.note_deleted(namespace, name, uid)
            return
        if _is_still_leaving(left, self._resource.kind):
            self._store.note_written(msgspec.convert(left, self._into))
        else:
            self._store.note_deleted(namespace, name, uid)


async def _created(
    client: KubeClient, resource: Resource, into: type[U], job: Job, manifest: Mapping[str, Any]
) -> U:
    """Create an object of a job, or find that it has been created before: then it must be the job's."""
    namespace, name = job.key.namespace, manifest["metadata"]["name"]
    try:
        return await client.create(resource, namespace, manifest, into=into)
    except AlreadyExists:
        try:
            made = await client.get(resource, namespace, name, into=into)
        except NotFound as gone:
            raise NotYet(f"{resource.kind} {name} was in the way and is gone") from gone
        if not any(ref.uid == job.owner.uid and ref.controller for ref in made.metadata.owner_references):
            raise NotYet(_in_the_way(resource.kind, made.metadata)) from None
        return made


def _is_lacking(pod: CreatePod, refusals: Mapping[str, str]) -> bool:
    """Whether a pod would start without its name, or cannot without its account."""
    return pod.name in refusals or pod.manifest["spec"].get("serviceAccountName", "") in refusals


def _in_the_way(kind: str, meta: ObjectMeta) -> str:
    """Whose object has a name that is needed, and what to do about it."""
    said = f"a {kind} of that name exists and is not this job's"
    if meta.deletion_timestamp is not None:
        return f"{said}: it is leaving"
    owner = next((ref for ref in meta.owner_references if ref.controller), None)
    whose = f" but that of {owner.kind} {owner.name}" if owner else ""
    return f"{said}{whose}: delete it, or give this job another name"


def _is_still_leaving(answer: Mapping[str, Any], kind: str) -> bool:
    """Whether the deleted object lives on for its grace period or its finalizers."""
    meta = answer.get("metadata") or {}
    is_object = answer.get("kind") == kind and meta.get("deletionTimestamp")
    return bool(is_object and (meta.get("deletionGracePeriodSeconds") or meta.get("finalizers")))
