"""Applies the actions of a decision to the cluster; every action is idempotent."""

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
from pliant.model.messages import MessageReason, message
from pliant.runtime.clock import Clock

REPORTED_CREATE_ERRORS = (BadRequest, Forbidden, Invalid, RetryLater)  # errors that an immediate retry does not fix

PREREQUISITE_ACTIONS = CreateConfigMap | CreateService | GrantMasterAccess  # what a pod needs when it starts

T = TypeVar("T", bound=Pod | Service)
U = TypeVar("U", bound=Pod | Service | ConfigMap)


class ActionApplier:
    def __init__(
        self, client: KubeClient, clock: Clock, pods: ObjectStore[Pod], services: ObjectStore[Service]
    ) -> None:
        self.events = EventRecorder(client, clock)
        self._client = client
        self._pods = _OwnedObjects(client, PODS, Pod, pods)
        self._services = _OwnedObjects(client, SERVICES, Service, services)
        self._masters: dict[tuple[str, str], tuple[ScalePlanStore, _OwnedObjects[Pod]]] = {}

    def register_master_kind(self, kind: Resource, plan_store: ScalePlanStore, pods: ObjectStore[Pod]) -> None:
        """Register a kind whose jobs have masters, which write scale plans and may create pods."""
        self._masters[kind.api_version, kind.kind] = plan_store, _OwnedObjects(self._client, PODS, Pod, pods)

    async def apply(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Apply all actions, prerequisites before pods; return the errors of failed creations by object name."""
        prerequisites = [action for action in actions if isinstance(action, PREREQUISITE_ACTIONS)]
        create_errors = await self._apply_concurrently(job, prerequisites)
        lacks_config_map = any(isinstance(each, CreateConfigMap) and each.name in create_errors for each in actions)
        # A pod without its service would wait for peers that cannot find it; without its ConfigMap it never starts.
        others = [
            action
            for action in actions
            if not isinstance(action, PREREQUISITE_ACTIONS)
            and not (isinstance(action, CreatePod) and (lacks_config_map or _lacks_prerequisite(action, create_errors)))
        ]
        return create_errors | await self._apply_concurrently(job, others)

    async def _apply_concurrently(self, job: Job, actions: Sequence[Action]) -> dict[str, str]:
        """Apply actions concurrently; raise the first error that is not a create error once all are done."""
        results = await asyncio.gather(*(self._apply_action(job, action) for action in actions), return_exceptions=True)
        create_errors: dict[str, str] = {}
        for action, result in zip(actions, results, strict=True):
            if isinstance(result, REPORTED_CREATE_ERRORS) and isinstance(action, CreatePod | PREREQUISITE_ACTIONS):
                name = action.service_account if isinstance(action, GrantMasterAccess) else action.name
                create_errors[name] = str(result)
            elif result is not None:
                raise result
        return create_errors

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
        """Delete a pod; label it first if its master must not relaunch it."""
        plan_store, external_pods = self._masters.get((job.owner.api_version, job.owner.kind), (None, self._pods))
        owned = self._pods if self._pods.contains(job, action.name, action.uid) else external_pods
        if action.prevents_relaunch and plan_store is not None and not action.is_forced:
            await owned.add_labels(job, action.name, action.uid, plan_store.kind.no_relaunch_labels)
        await owned.delete(job, action.name, action.uid, grace_seconds=0 if action.is_forced else None)

    async def _grant_access(self, job: Job, action: GrantMasterAccess) -> None:
        """Grant a master its permissions; a failure is tolerated if the user brought the service account."""
        try:
            await grant_master_access(self._client, job, action, self._plan_store(job).resource)
        except Forbidden as error:
            event = EmitEvent(
                reason="FailedGrantAccess",
                message=message(MessageReason.FAILED_GRANT_ACCESS, message=str(error)),
                is_warning=True,
            )
            self.events.emit(job.owner, job.key.namespace, event)
            if action.should_create_account:
                raise

    def _plan_store(self, job: Job) -> ScalePlanStore:
        return self._masters[job.owner.api_version, job.owner.kind][0]

    async def _delete_job(self, job: Job) -> None:
        """Delete the job if its uid still matches; its dependents are deleted through owner references."""
        owner = job.owner
        group, _, version = owner.api_version.rpartition("/")
        resource = Resource(group, version, owner.plural, owner.kind)
        with suppress(NotFound, Conflict):
            await self._client.delete(resource, job.key.namespace, owner.name, uid=owner.uid, propagation="Background")


class _OwnedObjects(Generic[T]):
    def __init__(self, client: KubeClient, resource: Resource, decode_as: type[T], store: ObjectStore[T]) -> None:
        self._client = client
        self._resource = resource
        self._decode_as = decode_as
        self._store = store

    def contains(self, job: Job, name: str, uid: str) -> bool:
        known = self._store.get(job.key.namespace, name)
        return known is not None and known.metadata.uid == uid

    async def add_labels(self, job: Job, name: str, uid: str, labels: Mapping[str, str]) -> None:
        known = self._store.get(job.key.namespace, name)
        if known is None or all(known.metadata.labels.get(label) == value for label, value in labels.items()):
            return
        patch = {"metadata": {"uid": uid, "labels": dict(labels)}}
        with suppress(NotFound, Conflict):
            patched = await self._client.patch(
                self._resource, job.key.namespace, name, patch, decode_as=self._decode_as
            )
            self._store.apply_own_write(patched)

    async def create_or_adopt(self, job: Job, manifest: Mapping[str, Any]) -> None:
        obj = await _create_or_get(self._client, self._resource, self._decode_as, job, manifest)
        if JOB_NAME_LABEL not in obj.metadata.labels:
            obj = await self._adopt(job, obj.metadata, manifest)
        if obj.metadata.labels.get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
            # The informers select by this label: the operator would never observe this object.
            label = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"
            raise RetryLater(
                f"{self._resource.kind} exists without the label {label}: restore the label or delete the object"
            )
        self._store.apply_own_write(obj)

    async def _adopt(self, job: Job, meta: ObjectMeta, manifest: Mapping[str, Any]) -> T:
        """Add this operator's labels to an object that another operator created for the same job."""
        patch = {"metadata": {"uid": meta.uid, "labels": manifest["metadata"]["labels"]}}
        try:
            return await self._client.patch(
                self._resource, job.key.namespace, meta.name, patch, decode_as=self._decode_as
            )
        except (NotFound, Conflict) as error:
            raise RetryLater(f"{self._resource.kind} {meta.name} existed and was deleted meanwhile") from error

    async def delete(self, job: Job, name: str, uid: str, *, grace_seconds: int | None = None) -> None:
        namespace = job.key.namespace
        try:
            response = await self._client.delete(
                self._resource, namespace, name, uid=uid, grace_period_seconds=grace_seconds
            )
        except (NotFound, Conflict):
            self._store.apply_own_deletion(namespace, name, uid)
            return
        if _is_still_terminating(response, self._resource.kind):
            self._store.apply_own_write(msgspec.convert(response, self._decode_as))
        else:
            self._store.apply_own_deletion(namespace, name, uid)


async def _create_or_get(
    client: KubeClient, resource: Resource, decode_as: type[U], job: Job, manifest: Mapping[str, Any]
) -> U:
    """Create an object of a job, or return the existing one if the job owns it; else raise RetryLater."""
    namespace, name = job.key.namespace, manifest["metadata"]["name"]
    try:
        return await client.create(resource, namespace, manifest, decode_as=decode_as)
    except AlreadyExists:
        try:
            obj = await client.get(resource, namespace, name, decode_as=decode_as)
        except NotFound as error:
            raise RetryLater(f"{resource.kind} {name} existed and was deleted meanwhile") from error
        if not any(ref.uid == job.owner.uid and ref.controller for ref in obj.metadata.owner_references):
            raise RetryLater(_name_conflict_message(resource.kind, obj.metadata)) from None
        return obj


def _lacks_prerequisite(action: CreatePod, create_errors: Mapping[str, str]) -> bool:
    return action.name in create_errors or action.manifest["spec"].get("serviceAccountName", "") in create_errors


def _name_conflict_message(kind: str, meta: ObjectMeta) -> str:
    if meta.deletion_timestamp is not None:
        return f"a {kind} of that name exists and does not belong to this job: it is being deleted"
    owner = next((ref for ref in meta.owner_references if ref.controller), None)
    belongs_to = f"belongs to {owner.kind} {owner.name}" if owner else "does not belong to this job"
    return f"a {kind} of that name exists and {belongs_to}: delete it or rename this job"


def _is_still_terminating(response: Mapping[str, Any], kind: str) -> bool:
    """Return whether the deleted object still exists, because of its grace period or its finalizers."""
    meta = response.get("metadata") or {}
    is_object = response.get("kind") == kind and meta.get("deletionTimestamp")
    return bool(is_object and (meta.get("deletionGracePeriodSeconds") or meta.get("finalizers")))
