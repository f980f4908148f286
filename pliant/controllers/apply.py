"""Applies the actions of a decision to the cluster; every action is idempotent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, assert_never

from pliant.controllers.events import EventRecorder
from pliant.controllers.large_jobs import Wave
from pliant.controllers.membership.files import MembershipFiles
from pliant.controllers.owned_objects import NameConflict, OwnedObjects, create_config_map, create_or_get
from pliant.controllers.rbac.master_access import MasterAccessMissing, check_master_access, grant_master_access
from pliant.controllers.scale_plans import ScalePlanStore
from pliant.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound, PliantError, RetryLater
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import DisruptionBudget, Pod, Service
from pliant.kube.resources import POD_DISRUPTION_BUDGETS, PODS, SERVICES, Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.kube.transport.write_limiter import MAX_WRITES_IN_FLIGHT
from pliant.model.actions import (
    Action,
    AllowEviction,
    CheckMasterAccess,
    CreateConfigMap,
    CreateDisruptionBudget,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteScalePlan,
    DeleteService,
    EmitEvent,
    GrantMasterAccess,
    WriteMembershipFile,
)
from pliant.model.job import Job
from pliant.model.labels import EVICTION_ALLOWED, EVICTION_LABEL
from pliant.model.messages import Message, MessageReason, message
from pliant.runtime.clock import Clock

REPORTED_CREATE_ERRORS = (BadRequest, Forbidden, Invalid, RetryLater)  # errors that an immediate retry does not fix

MAX_RELEASED_AGE = timedelta(minutes=1)
"""How old an object may be that a job deletes because others of its names are taken."""

PREREQUISITE_ACTIONS = CreateConfigMap | CreateService | CreateDisruptionBudget | GrantMasterAccess | CheckMasterAccess
"""What is created before the pods: what they need when they start, and what is created only with pods."""
KEYS_UNAVAILABLE = (
    "the operator has no secret to derive the keys of the job from (its log says why): "
    "reapply the output of `pliant install`, which grants the missing permissions"
)


class AppliedActions(NamedTuple):
    create_errors: dict[str, Message]
    """The errors of failed creations by object name."""
    is_complete: bool
    """Whether all actions were applied; if not, the job must be reconciled again at once."""


class ActionApplier:
    def __init__(
        self,
        client: KubeClient,
        clock: Clock,
        pods: ObjectStore[Pod],
        services: ObjectStore[Service],
        *,
        has_key_secret: bool = True,
    ) -> None:
        self.events = EventRecorder(client, clock)
        self._has_key_secret = has_key_secret
        self._client = client
        self._clock = clock
        limiter = client.write_limiter
        self.slice_size = limiter.max_limit if limiter is not None else MAX_WRITES_IN_FLIGHT
        """Actions of one decision that are handed over together: as many as may be in flight."""
        self._pods = OwnedObjects(client, PODS, Pod, pods)
        self._services = OwnedObjects(client, SERVICES, Service, services)
        self._membership_files = MembershipFiles(client)
        self._masters: dict[tuple[str, str], tuple[ScalePlanStore, OwnedObjects[Pod]]] = {}

    def register_master_kind(self, kind: Resource, plan_store: ScalePlanStore, pods: ObjectStore[Pod]) -> None:
        """Register a kind whose jobs have masters, which write scale plans and may create pods."""
        self._masters[kind.api_version, kind.kind] = plan_store, OwnedObjects(self._client, PODS, Pod, pods)

    async def apply(
        self,
        job: Job,
        actions: Sequence[Action],
        *,
        may_release_names: bool = False,
        check_current: Callable[[], None] | None = None,
    ) -> AppliedActions:
        """Apply actions in slices, prerequisites before pods; raise `StaleDecision` once `check_current` does.

        While an object of one of the names belongs to another owner, nothing is created: a job never runs in part.
        `may_release_names` deletes in that case what the job has just created. Otherwise two jobs of one name could
        wait for each other.
        """
        wave = Wave(self.slice_size, check_current)
        create_errors = await self._adopt_existing(job, actions, wave)
        if create_errors:
            actions = [action for action in actions if not _creates(action)]
            if may_release_names:
                # Older pods may be those of a job that ran before its status was lost.
                since = self._clock.now() - MAX_RELEASED_AGE
                for owned in (self._pods, self._services):
                    _raise_first(
                        await wave.run(owned.list_created_since(job, since), partial(owned.delete_object, job))
                    )
        prerequisites = [action for action in actions if isinstance(action, PREREQUISITE_ACTIONS)]
        create_errors |= await self._apply_concurrently(job, prerequisites, wave)
        if wave.is_complete:
            create_errors |= await self._apply_concurrently(job, _select_others(actions, create_errors), wave)
        return AppliedActions(create_errors, wave.is_complete)

    async def _adopt_existing(self, job: Job, actions: Sequence[Action], wave: Wave) -> dict[str, Message]:
        """Adopt existing pods and services that have no owner, all or none; return the name conflicts."""
        pods = [action.manifest for action in actions if isinstance(action, CreatePod)]
        services = [action.manifest for action in actions if isinstance(action, CreateService)]
        pod_adoptions, pod_conflicts = await self._pods.find_adoptions(job, pods)
        service_adoptions, service_conflicts = await self._services.find_adoptions(job, services)
        if job.master is not None and pods:
            # Its members get new IDs, so their names do not meet those of the members that are left.
            pod_conflicts += self._pods.find_strays(job, pods)
        if conflicts := {each.name: each.message for each in (*pod_conflicts, *service_conflicts)}:
            return conflicts
        _raise_first(await wave.run(service_adoptions, partial(self._services.adopt, job)))
        _raise_first(await wave.run(pod_adoptions, partial(self._pods.adopt, job)))
        return {}

    async def _apply_concurrently(self, job: Job, actions: Sequence[Action], wave: Wave) -> dict[str, Message]:
        """Apply actions concurrently; raise the first error that is not a create error once all are done."""
        create_errors: dict[str, Message] = {}
        for action, error in await wave.run(actions, partial(self._apply_action, job, wave)):
            if isinstance(error, REPORTED_CREATE_ERRORS) and isinstance(action, CreatePod | PREREQUISITE_ACTIONS):
                name = _created_name(action)
                create_errors[name] = _create_error_message(name, error)
            else:
                raise error
        return create_errors

    async def _apply_action(self, job: Job, wave: Wave, action: Action) -> None:
        match action:
            case CreatePod(manifest=manifest):
                await self._pods.create(job, manifest, wave.check_current)
            case CreateService(manifest=manifest):
                await self._services.create(job, manifest, wave.check_current)
            case CreateConfigMap(manifest=manifest):
                client = self._client.for_flow(WriteFlow(*job.key), check_current=wave.check_current)
                await create_config_map(client, job, manifest)
            case CreateDisruptionBudget(manifest=manifest):
                await self._create_disruption_budget(job, manifest)
            case WriteMembershipFile() | AllowEviction():
                await self._apply_elasticity(job, action)
            case DeletePod():
                await self._delete_pod(job, action)
            case DeleteService(name=name, uid=uid):
                await self._services.delete(job, name, uid)
            case DeleteScalePlan():
                await self._plan_store(job).delete(job.key, action)
            case GrantMasterAccess() | CheckMasterAccess():
                await self._prepare_access(job, action)
            case DeleteJob():
                await self._delete_job(job)
            case EmitEvent():
                self.events.emit(job.owner, job.key.namespace, action)
            case _:
                assert_never(action)

    async def _apply_elasticity(self, job: Job, action: WriteMembershipFile | AllowEviction) -> None:
        match action:
            case WriteMembershipFile(manifest=manifest):
                await self._membership_files.write(job, manifest)
            case AllowEviction(name=name, uid=uid):
                await self._pods.add_labels(job, name, uid, {EVICTION_LABEL: EVICTION_ALLOWED})

    async def _create_disruption_budget(self, job: Job, manifest: Mapping[str, Any]) -> None:
        """Create the disruption budget of a job; raise RetryLater while that of an earlier job is being deleted.

        The job runs without it if the operator may not create it, or if somebody else has one of that name.
        """
        client = self._client.for_flow(WriteFlow(*job.key))
        try:
            await create_or_get(client, POD_DISRUPTION_BUDGETS, DisruptionBudget, job, manifest)
        except NameConflict as conflict:
            self._warn(job, conflict.message)
        except (Forbidden, Invalid) as error:
            self._warn(job, message(MessageReason.FAILED_CREATE, object=manifest["metadata"]["name"], error=str(error)))

    async def _delete_pod(self, job: Job, action: DeletePod) -> None:
        """Delete a pod; label it first if its master must not relaunch it."""
        plan_store, external_pods = self._masters.get((job.owner.api_version, job.owner.kind), (None, self._pods))
        owned = self._pods if self._pods.contains(job, action.name, action.uid) else external_pods
        if action.prevents_relaunch and plan_store is not None and not action.is_forced:
            await owned.add_labels(job, action.name, action.uid, plan_store.kind.no_relaunch_labels)
        await owned.delete(job, action.name, action.uid, grace_seconds=0 if action.is_forced else None)

    async def _prepare_access(self, job: Job, action: GrantMasterAccess | CheckMasterAccess) -> None:
        """Grant a master its permissions, or check those of the account that the user named."""
        if job.master is not None and job.master.checks_keys and not self._has_key_secret:
            raise RetryLater(KEYS_UNAVAILABLE)
        plans = self._plan_store(job).resource
        if isinstance(action, CheckMasterAccess):
            await check_master_access(self._client, job, action.service_account, plans)
            return
        try:
            await grant_master_access(self._client.for_flow(WriteFlow(*job.key)), job, plans)
        except Forbidden as error:
            denied = message(MessageReason.FAILED_GRANT_ACCESS, message=str(error))
            self._warn(job, denied)
            raise

    def _warn(self, job: Job, warning: Message) -> None:
        event = EmitEvent(reason=warning.reason, message=warning, is_warning=True)
        self.events.emit(job.owner, job.key.namespace, event)

    def _plan_store(self, job: Job) -> ScalePlanStore:
        return self._masters[job.owner.api_version, job.owner.kind][0]

    async def _delete_job(self, job: Job) -> None:
        """Delete the job if its uid still matches; its dependents are deleted through owner references."""
        owner = job.owner
        group, _, version = owner.api_version.rpartition("/")
        resource = Resource(group, version, owner.plural, owner.kind)
        client = self._client.for_flow(WriteFlow(*job.key))
        with suppress(NotFound, Conflict):
            await client.delete(resource, job.key.namespace, owner.name, uid=owner.uid, propagation="Background")


def _select_others(actions: Sequence[Action], create_errors: Mapping[str, Message]) -> list[Action]:
    """Return the actions that follow the prerequisites, without the pods that lack a prerequisite.

    A pod without its service would wait for peers that cannot find it; without its ConfigMap it never starts.
    """
    has_conflict = any(each.reason == MessageReason.NAME_CONFLICT for each in create_errors.values())
    lacks_config_map = any(isinstance(each, CreateConfigMap) and each.name in create_errors for each in actions)
    return [
        action
        for action in actions
        if not isinstance(action, PREREQUISITE_ACTIONS)
        and not (
            isinstance(action, CreatePod)
            and (has_conflict or lacks_config_map or _lacks_prerequisite(action, create_errors))
        )
    ]


def _raise_first(failures: Sequence[tuple[object, PliantError]]) -> None:
    for _, error in failures:
        raise error


def _created_name(action: CreatePod | PREREQUISITE_ACTIONS) -> str:
    return action.service_account if isinstance(action, GrantMasterAccess | CheckMasterAccess) else action.name


def _creates(action: Action) -> bool:
    return isinstance(action, CreatePod | PREREQUISITE_ACTIONS)


def _create_error_message(name: str, error: Exception) -> Message:
    if isinstance(error, NameConflict | MasterAccessMissing):
        return error.message
    return message(MessageReason.FAILED_CREATE, object=name, error=str(error))


def _lacks_prerequisite(action: CreatePod, create_errors: Mapping[str, Message]) -> bool:
    spec = action.manifest["spec"]
    return any(name in create_errors for name in (action.name, spec.get("subdomain"), spec.get("serviceAccountName")))
