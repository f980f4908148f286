"""The one place that acts: one branch per action, each safe to repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar, assert_never

import msgspec

from pliant.controllers.events import EventRecorder
from pliant.controllers.rbac.master_access import grant_master_access
from pliant.controllers.scale_plans import ScalePlanStore
from pliant.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound, RetryLater
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import ConfigMap, ObjectMeta, Pod, Service
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES, Resource
from pliant.model.actions import (
    Action,
    CreateConfigMap,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteScalePlan,
    DeleteService,
    EmitEvent,
    GrantMasterAccess,
)
from pliant.model.job import Job
from pliant.model.labels import JOB_NAME_LABEL, MANAGED_BY_LABEL, MANAGED_BY_VALUE
from pliant.runtime.clock import Clock

CREATE_ERRORS = (BadRequest, Forbidden, Invalid, RetryLater)
"""Answers that asking again at once will not change."""

PREREQUISITE_ACTIONS = CreateConfigMap | CreateService | GrantMasterAccess
"""What members need to find when they start."""

T = TypeVar("T", bound=Pod | Service)
U = TypeVar("U", bound=Pod | Service | ConfigMap)


class ActionApplier:
    """Carries out actions and shows their effect in the stores at once."""

    def __init__(
        self, client: KubeClient, clock: Clock, pods: ObjectStore[Pod], services: ObjectStore[Service]
    ) -> None:
        self.events = EventRecorder(client, clock)
        self._client = client
        self._pods = _OwnedObjects(client, PODS, Pod, pods)
        self._services = _OwnedObjects(client, SERVICES, Service, services)
        self._masters: dict[tuple[str, str], tuple[ScalePlanStore, _OwnedObjects[Pod]]] = {}

    def register_masters(self, kind: Resource, plan_store: ScalePlanStore, pods: ObjectStore[Pod]) -> None:
        """Serve jobs of a kind whose masters write plans, and perhaps make pods by themselves."""
        self._masters[kind.api_version, kind.kind] = plan_store, _OwnedObjects(self._client, PODS, Pod, pods)

    async def apply(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Perform all actions, names before members; returns what could not be created, and why."""
        refusals = await self._apply_concurrently(
            job, [action for action in actions if isinstance(action, PREREQUISITE_ACTIONS)]
        )
        lacks_files = any(isinstance(action, CreateConfigMap) and action.name in refusals for action in actions)
        # A member without its name would start and wait for peers who cannot find it, one without files for ever.
        others = [
            action
            for action in actions
            if not isinstance(action, PREREQUISITE_ACTIONS)
            and not (isinstance(action, CreatePod) and (lacks_files or _lacks_prerequisite(action, refusals)))
        ]
        return refusals | await self._apply_concurrently(job, others)

    async def _apply_concurrently(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Perform actions side by side; the first failure that is not a refusal is raised when all are done."""
        ends = await asyncio.gather(*(self._apply_action(job, action) for action in actions), return_exceptions=True)
        refusals: dict[str, str] = {}
        for action, end in zip(actions, ends, strict=True):
            if isinstance(end, CREATE_ERRORS) and isinstance(action, CreatePod | PREREQUISITE_ACTIONS):
                refusals[action.service_account if isinstance(action, GrantMasterAccess) else action.name] = str(end)
            elif end is not None:
                raise end
        return refusals

    async def _apply_action(self, job: Job, action: Action) -> None:
        match action:
            case CreatePod(manifest=manifest):
                await self._pods.create_or_adopt(job, manifest)
            case CreateService(manifest=manifest):
                await self._services.create_or_adopt(job, manifest)
            case CreateConfigMap(manifest=manifest):
                await _create_or_get(self._client, CONFIG_MAPS, ConfigMap, job, manifest)
            case DeletePod():
                await self._delete_pod(job, action)
            case DeleteService(name=name, uid=uid):
                await self._services.delete(job, name, uid)
            case DeleteScalePlan():
                await self._plan_store(job).delete(job.key.namespace, action)
            case GrantMasterAccess():
                await self._grant_access(job, action)
            case DeleteJob():
                await self._delete_job(job)
            case EmitEvent():
                self.events.emit(job.owner, job.key.namespace, action)
            case _:
                assert_never(action)

    async def _delete_pod(self, job: Job, action: DeletePod) -> None:
        """Let a pod go; its master is told first, if it is not to make another."""
        desk, made = self._masters.get((job.owner.api_version, job.owner.kind), (None, self._pods))
        members = self._pods if self._pods.contains(job, action.name, action.uid) else made
        if action.is_permanent and desk is not None and not action.is_forced:
            await members.add_labels(job, action.name, action.uid, desk.kind.no_relaunch_labels)
        await members.delete(job, action.name, action.uid, grace_seconds=0 if action.is_forced else None)

    async def _grant_access(self, job: Job, action: GrantMasterAccess) -> None:
        """Give a master its account; one of its author's own may have been given its rights by hand."""
        try:
            await grant_master_access(self._client, job, action, self._plan_store(job).resource)
        except Forbidden as refused:
            event = EmitEvent(reason="CannotGrant", message=str(refused), is_warning=True)
            self.events.emit(job.owner, job.key.namespace, event)
            if action.should_create_account:
                raise

    def _plan_store(self, job: Job) -> ScalePlanStore:
        return self._masters[job.owner.api_version, job.owner.kind][0]

    async def _delete_job(self, job: Job) -> None:
        """Delete the job, and by owner references whatever it still holds; one of the same name is another."""
        owner = job.owner
        group, _, version = owner.api_version.rpartition("/")
        resource = Resource(group, version, owner.plural, owner.kind)
        with suppress(NotFound, Conflict):
            await self._client.delete(resource, job.key.namespace, owner.name, uid=owner.uid, propagation="Background")


class _OwnedObjects(Generic[T]):
    """Creates and deletes objects of one kind, whose names are theirs for ever and whose uids are not."""

    def __init__(self, client: KubeClient, resource: Resource, decode_as: type[T], store: ObjectStore[T]) -> None:
        self._client = client
        self._resource = resource
        self._decode_as = decode_as
        self._store = store

    def contains(self, job: Job, name: str, uid: str) -> bool:
        """Whether this incarnation is one of them."""
        known = self._store.get(job.key.namespace, name)
        return known is not None and known.metadata.uid == uid

    async def add_labels(self, job: Job, name: str, uid: str, labels: Mapping[str, str]) -> None:
        """Put labels onto this incarnation, unless it has them; one that is gone needs none."""
        known = self._store.get(job.key.namespace, name)
        if known is None or all(known.metadata.labels.get(label) == value for label, value in labels.items()):
            return
        patch = {"metadata": {"uid": uid, "labels": dict(labels)}}
        with suppress(NotFound, Conflict):
            marked = await self._client.patch(self._resource, job.key.namespace, name, patch, decode_as=self._decode_as)
            self._store.note_written(marked)

    async def create_or_adopt(self, job: Job, manifest: Mapping[str, Any]) -> None:
        """Create, or find that it has been created before: then it must be ours."""
        made = await _create_or_get(self._client, self._resource, self._decode_as, job, manifest)
        if JOB_NAME_LABEL not in made.metadata.labels:
            made = await self._adopt(job, made.metadata, manifest)
        if made.metadata.labels.get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
            # Only what carries it is watched: what happens to this one would never be known.
            label = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"
            raise RetryLater(
                f"it is there, but has lost its label {label}: put it back, or delete the {self._resource.kind}"
            )
        self._store.note_written(made)

    async def _adopt(self, job: Job, meta: ObjectMeta, manifest: Mapping[str, Any]) -> T:
        """Make ours what another operator made for the same job: it gets our labels, and goes on as it is."""
        patch = {"metadata": {"uid": meta.uid, "labels": manifest["metadata"]["labels"]}}
        try:
            return await self._client.patch(
                self._resource, job.key.namespace, meta.name, patch, decode_as=self._decode_as
            )
        except (NotFound, Conflict) as gone:
            raise RetryLater(f"{self._resource.kind} {meta.name} was in the way and is gone") from gone

    async def delete(self, job: Job, name: str, uid: str, *, grace_seconds: int | None = None) -> None:
        """Delete this incarnation; if another has taken the name, this one is gone already."""
        namespace = job.key.namespace
        try:
            left = await self._client.delete(
                self._resource, namespace, name, uid=uid, grace_period_seconds=grace_seconds
            )
        except (NotFound, Conflict):
            self._store.note_deleted(namespace, name, uid)
            return
        if _is_still_terminating(left, self._resource.kind):
            self._store.note_written(msgspec.convert(left, self._decode_as))
        else:
            self._store.note_deleted(namespace, name, uid)


async def _create_or_get(
    client: KubeClient, resource: Resource, decode_as: type[U], job: Job, manifest: Mapping[str, Any]
) -> U:
    """Create an object of a job, or find that it has been created before: then it must be the job's."""
    namespace, name = job.key.namespace, manifest["metadata"]["name"]
    try:
        return await client.create(resource, namespace, manifest, decode_as=decode_as)
    except AlreadyExists:
        try:
            made = await client.get(resource, namespace, name, decode_as=decode_as)
        except NotFound as gone:
            raise RetryLater(f"{resource.kind} {name} was in the way and is gone") from gone
        if not any(ref.uid == job.owner.uid and ref.controller for ref in made.metadata.owner_references):
            raise RetryLater(_name_conflict_message(resource.kind, made.metadata)) from None
        return made


def _lacks_prerequisite(action: CreatePod, create_errors: Mapping[str, str]) -> bool:
    """Whether a pod would start without its name, or cannot without its account."""
    return action.name in create_errors or action.manifest["spec"].get("serviceAccountName", "") in create_errors


def _name_conflict_message(kind: str, meta: ObjectMeta) -> str:
    """Whose object has a name that is needed, and what to do about it."""
    said = f"a {kind} of that name exists and is not this job's"
    if meta.deletion_timestamp is not None:
        return f"{said}: it is leaving"
    owner = next((ref for ref in meta.owner_references if ref.controller), None)
    whose = f" but that of {owner.kind} {owner.name}" if owner else ""
    return f"{said}{whose}: delete it, or give this job another name"


def _is_still_terminating(response: Mapping[str, Any], kind: str) -> bool:
    """Whether the deleted object lives on for its grace period or its finalizers."""
    meta = response.get("metadata") or {}
    is_object = response.get("kind") == kind and meta.get("deletionTimestamp")
    return bool(is_object and (meta.get("deletionGracePeriodSeconds") or meta.get("finalizers")))
