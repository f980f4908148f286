"""The pods and services of jobs: created, adopted if nobody owns them, and never taken from another owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from pliant.controllers.object_differences import find_difference
from pliant.errors import AlreadyExists, Conflict, NotFound, RetryLater
from pliant.kube.cache.store import ObjectStore
from pliant.kube.client import KubeClient
from pliant.kube.objects import ConfigMap, DisruptionBudget, ObjectMeta, OwnerReference, Pod, Service
from pliant.kube.resources import CONFIG_MAPS, PODS, Resource
from pliant.kube.transport.write_flows import WriteFlow
from pliant.model.job import Job, JobKey
from pliant.model.labels import JOB_NAME_LABEL, MANAGED_BY_LABEL, MANAGED_BY_VALUE, TEMPLATE_HASH_ANNOTATION
from pliant.model.messages import Message, MessageReason, message

T = TypeVar("T", bound=Pod | Service)
U = TypeVar("U", bound=Pod | Service | ConfigMap | DisruptionBudget)

OWNER_UID_INDEX = "owner"  # the index of pods and services by owner uid
UNOWNED_INDEX = "unowned"  # the index of pods without an owner by the name of the job that created them


def unowned_index_keys(pod: Pod) -> Iterable[str]:
    meta = pod.metadata
    is_unowned = JOB_NAME_LABEL in meta.labels and _controller_of(meta) is None
    return (str(JobKey(meta.namespace, meta.labels[JOB_NAME_LABEL])),) if is_unowned else ()


class NameConflict(RetryLater):
    """An object of the same name exists that the job must not use."""

    def __init__(self, kind: str, name: str, problem: str, owner: OwnerReference | None = None) -> None:
        super().__init__(f"{kind} {name} {problem}")
        self.kind, self.name, self.problem, self.owner = kind, name, problem, owner

    @property
    def message(self) -> Message:
        owner = self.owner
        return message(
            MessageReason.NAME_CONFLICT,
            kind=self.kind,
            object=self.name,
            problem=self.problem,
            ownerKind=owner.kind if owner else None,
            ownerName=owner.name if owner else None,
            ownerUid=owner.uid if owner else None,
        )


class Adoption(NamedTuple):
    """An existing object without an owner, and the manifest that the job would create."""

    existing: Mapping[str, Any]
    manifest: Mapping[str, Any]


class OwnedObjects(Generic[T]):
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
        with suppress(NotFound, Conflict):
            await self._patch(job, name, {"metadata": {"uid": uid, "labels": dict(labels)}})

    def list_created_since(self, job: Job, since: datetime) -> list[ObjectMeta]:
        """Return the objects of the job that were created after this time and are not being deleted."""
        owned = [each.metadata for each in self._list_owned(job) if each.metadata.deletion_timestamp is None]
        return [meta for meta in owned if meta.creation_timestamp is not None and meta.creation_timestamp >= since]

    def find_strays(self, job: Job, manifests: Iterable[Mapping[str, Any]]) -> list[NameConflict]:
        """Return the objects without an owner that an earlier job of this name left behind, except for these."""
        if self._list_owned(job):
            return []  # the job has started
        names = {manifest["metadata"]["name"] for manifest in manifests}
        found = self._store.by_index(UNOWNED_INDEX, str(job.key))
        strays = [each.metadata for each in found if each.metadata.deletion_timestamp is None]
        return [
            NameConflict(self._resource.kind, meta.name, "exists and belongs to no job")
            for meta in strays
            if meta.name not in names
        ]

    def _list_owned(self, job: Job) -> list[T]:
        owned = self._store.by_index(OWNER_UID_INDEX, job.owner.uid)
        return [each for each in owned if each.metadata.namespace == job.key.namespace]

    async def find_adoptions(
        self, job: Job, manifests: Iterable[Mapping[str, Any]]
    ) -> tuple[list[Adoption], list[NameConflict]]:
        """Return the existing objects that the job can adopt, and those of its names that it must not use."""
        adoptions, conflicts = [], []
        for manifest in manifests:
            try:
                adoption = await self._find_adoption(job, manifest)
            except NameConflict as conflict:
                conflicts.append(conflict)
            else:
                adoptions += [adoption] if adoption is not None else []
        return adoptions, conflicts

    async def adopt(self, job: Job, adoption: Adoption) -> None:
        """Become the owner of an object that has none, provided that it has not changed since."""
        existing, manifest = adoption
        meta, name = existing["metadata"], manifest["metadata"]["name"]
        metadata = {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "labels": manifest["metadata"]["labels"],
            "ownerReferences": manifest["metadata"]["ownerReferences"],
        }
        patch: dict[str, Any] = {"metadata": metadata}
        if self._resource is not PODS:  # the selector contains the UID of the job
            selector = {**dict.fromkeys(existing["spec"].get("selector") or {}), **manifest["spec"]["selector"]}
            patch["spec"] = {**manifest["spec"], "selector": selector}
        try:
            await self._patch(job, name, patch)
        except (NotFound, Conflict) as error:
            raise RetryLater(f"{self._resource.kind} {name} changed while it was adopted") from error

    async def create(
        self, job: Job, manifest: Mapping[str, Any], check_current: Callable[[], None] | None = None
    ) -> None:
        """Create an object, unless the job has it already; `check_current` may prevent it while it waits."""
        known = self._store.get(job.key.namespace, manifest["metadata"]["name"])
        if known is not None and _is_owned_by(known.metadata, job) and known.metadata.deletion_timestamp is None:
            return
        client = self._client.for_flow(WriteFlow(*job.key), check_current=check_current)
        obj = await create_or_get(client, self._resource, self._decode_as, job, manifest)
        if JOB_NAME_LABEL not in obj.metadata.labels:
            obj = await self._add_own_labels(job, obj.metadata, manifest)
        if obj.metadata.labels.get(MANAGED_BY_LABEL) != MANAGED_BY_VALUE:
            # The informers select by this label: the operator would never observe this object.
            label = f"{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"
            raise RetryLater(
                f"{self._resource.kind} exists without the label {label}: restore the label or delete the object"
            )
        self._store.apply_own_write(obj)

    async def delete_object(self, job: Job, meta: ObjectMeta) -> None:
        await self.delete(job, meta.name, meta.uid)

    async def delete(self, job: Job, name: str, uid: str, *, grace_seconds: int | None = None) -> None:
        namespace, client = job.key.namespace, self._client.for_flow(WriteFlow(*job.key))
        try:
            response = await client.delete(self._resource, namespace, name, uid=uid, grace_period_seconds=grace_seconds)
        except (NotFound, Conflict):
            self._store.apply_own_deletion(namespace, name, uid)
            return
        if _is_still_terminating(response, self._resource.kind):
            self._store.apply_own_write(msgspec.convert(response, self._decode_as))
        else:
            self._store.apply_own_deletion(namespace, name, uid)

    async def _find_adoption(self, job: Job, manifest: Mapping[str, Any]) -> Adoption | None:
        """Return the existing object if it can be adopted; raise NameConflict if it belongs to another owner."""
        kind, namespace, name = self._resource.kind, job.key.namespace, manifest["metadata"]["name"]
        known = self._store.get(namespace, name)
        if known is None or known.metadata.deletion_timestamp is not None:
            return None
        if _controller_of(known.metadata) is not None:
            _check_owner(job, kind, known.metadata)
            return None
        try:
            raw = await self._client.get(self._resource, namespace, name)
        except NotFound:
            return None
        if problem := _adoption_problem(manifest, raw):
            raise NameConflict(kind, name, problem)
        return Adoption(raw, manifest)

    async def _add_own_labels(self, job: Job, meta: ObjectMeta, manifest: Mapping[str, Any]) -> T:
        """Add this operator's labels to an object that another operator created for the same job."""
        patch = {"metadata": {"uid": meta.uid, "labels": manifest["metadata"]["labels"]}}
        try:
            return await self._patch(job, meta.name, patch)
        except (NotFound, Conflict) as error:
            raise RetryLater(f"{self._resource.kind} {meta.name} existed and was deleted meanwhile") from error

    async def _patch(self, job: Job, name: str, patch: Mapping[str, Any]) -> T:
        client = self._client.for_flow(WriteFlow(*job.key))
        patched = await client.patch(self._resource, job.key.namespace, name, patch, decode_as=self._decode_as)
        self._store.apply_own_write(patched)
        return patched


async def create_or_get(
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
        require_owned(job, resource.kind, obj.metadata)
        return obj


async def create_config_map(client: KubeClient, job: Job, manifest: Mapping[str, Any]) -> None:
    """Create a ConfigMap of a job; raise NameConflict if it exists with a content that the job did not give it."""
    stored = await create_or_get(client, CONFIG_MAPS, ConfigMap, job, manifest)
    if stored.data != manifest["data"]:
        raise NameConflict(CONFIG_MAPS.kind, stored.metadata.name, "exists with other content")


def require_owned(job: Job, kind: str, meta: ObjectMeta) -> None:
    """Raise RetryLater if an object belongs to a deleted job of this name, NameConflict if to anything else."""
    if not _is_owned_by(meta, job):
        if meta.deletion_timestamp is None:
            _check_owner(job, kind, meta)
        raise RetryLater(f"{kind} {meta.name} of an earlier job is still being deleted")


def _check_owner(job: Job, kind: str, meta: ObjectMeta) -> None:
    """Raise NameConflict unless the object belongs to the job or to a deleted job of the same name."""
    owner = _controller_of(meta)
    if owner is None:
        raise NameConflict(kind, meta.name, "exists and belongs to no job")
    if (owner.kind, owner.name) != (job.owner.kind, job.owner.name) or owner.api_version != job.owner.api_version:
        group = owner.api_version.rpartition("/")[0]
        belongs_to = f"{owner.kind} {owner.name}" + (f" of {group}" if group else "")
        raise NameConflict(kind, meta.name, f"belongs to {belongs_to} (uid {owner.uid})", owner)


def _controller_of(meta: ObjectMeta) -> OwnerReference | None:
    return next((ref for ref in meta.owner_references if ref.controller), None)


def _is_owned_by(meta: ObjectMeta, job: Job) -> bool:
    owner = _controller_of(meta)
    return owner is not None and owner.uid == job.owner.uid


def _adoption_problem(manifest: Mapping[str, Any], existing: Mapping[str, Any]) -> str:
    """Return why an object without an owner cannot be adopted; empty if it can."""
    labels = existing["metadata"].get("labels") or {}
    if labels.get(JOB_NAME_LABEL) != manifest["metadata"]["labels"][JOB_NAME_LABEL]:
        return "exists and belongs to no job"
    if manifest["kind"] != "Pod":
        return ""  # the spec of a service is replaced
    if existing.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return "exists, belongs to no job and has finished"
    before, now = (each["metadata"].get("annotations") or {} for each in (existing, manifest))
    if before.get(TEMPLATE_HASH_ANNOTATION) != now.get(TEMPLATE_HASH_ANNOTATION):
        return "exists, belongs to no job and has another template"
    difference = find_difference(manifest["spec"], existing["spec"], "spec")
    return f"exists, belongs to no job and differs in {difference}" if difference else ""


def _is_still_terminating(response: Mapping[str, Any], kind: str) -> bool:
    """Return whether the deleted object still exists, because of its grace period or its finalizers."""
    meta = response.get("metadata") or {}
    is_object = response.get("kind") == kind and meta.get("deletionTimestamp")
    return bool(is_object and (meta.get("deletionGracePeriodSeconds") or meta.get("finalizers")))
