"""The service account of a job's master: made and granted by the operator, or named by the user and only checked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pliant.controllers.owned_objects import require_owned
from pliant.controllers.rbac.operator_roles import RBAC_API_GROUP, policy_rule
from pliant.controllers.rbac.permissions import Permission, master_permissions, required_master_permissions
from pliant.errors import AlreadyExists, ApiError, Forbidden, NotFound, RetryLater
from pliant.kube.client import KubeClient
from pliant.kube.objects import ObjectMeta
from pliant.kube.resources import SERVICE_ACCOUNTS, Resource
from pliant.model.job import Job
from pliant.model.labels import job_labels, owner_references, replica_service_name
from pliant.model.messages import Message, MessageReason, message

ROLES_RESOURCE = Resource(RBAC_API_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS_RESOURCE = Resource(RBAC_API_GROUP, "v1", "rolebindings", "RoleBinding")
ACCESS_REVIEWS_RESOURCE = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview")


class MasterAccessMissing(RetryLater):
    """The service account that the user named for the master lacks permissions."""

    def __init__(self, job: Job, account: str, missing: Iterable[str]) -> None:
        self.message: Message = message(
            MessageReason.MASTER_ACCESS_MISSING,
            account=account,
            namespace=job.key.namespace,
            missing=", ".join(missing),
            role=_role_name(job),
        )
        super().__init__(f"service account {account} lacks permissions")


async def grant_master_access(client: KubeClient, job: Job, plan_resource: Resource) -> None:
    """Create the account of the master, its role and its binding, or update the job's own.

    Raise NameConflict if one of them exists and does not belong to the job, and Forbidden if the operator may not.
    """
    account = {"kind": "ServiceAccount", "name": _role_name(job), "namespace": job.key.namespace}
    role = {"apiGroup": RBAC_API_GROUP, "kind": "Role", "name": _role_name(job)}
    await _ensure_object(client, job, SERVICE_ACCOUNTS, {})
    await _ensure_role(client, job, plan_resource)
    await _ensure_object(client, job, ROLE_BINDINGS_RESOURCE, {"roleRef": role, "subjects": [account]})


async def check_master_access(client: KubeClient, job: Job, account: str, plan_resource: Resource) -> None:
    """Raise MasterAccessMissing if the account that the user named lacks a permission of the master.

    The operator binds nothing to this account: other pods of the namespace may use it. It only creates the role, so
    that the user can bind it.
    """
    permissions = list(required_master_permissions(job, _job_resource(job), plan_resource))
    pairs = [(permission, verb) for permission in permissions for verb in permission.verbs]
    try:
        reviews = [_is_allowed(client, job, account, permission, verb) for permission, verb in pairs]
        allowed = await asyncio.gather(*reviews)
    except (NotFound, Forbidden):
        return  # the cluster does not tell: if a permission is missing, the master reports it
    denied = {pair for pair, is_allowed in zip(pairs, allowed, strict=True) if not is_allowed}
    if denied:
        await _ensure_role(client, job, plan_resource)
        verbs = {each: [verb for verb in each.verbs if (each, verb) in denied] for each in permissions}
        raise MasterAccessMissing(job, account, [f"{' '.join(v)} {each}" for each, v in verbs.items() if v])


async def _is_allowed(client: KubeClient, job: Job, account: str, permission: Permission, verb: str) -> bool:
    namespace = job.key.namespace
    attributes = {"namespace": namespace, "verb": verb, "group": permission.group, "resource": permission.resource}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    user = f"system:serviceaccount:{namespace}:{account}"
    spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
    body = {"apiVersion": ACCESS_REVIEWS_RESOURCE.api_version, "kind": ACCESS_REVIEWS_RESOURCE.kind, "spec": spec}
    review = await client.create(ACCESS_REVIEWS_RESOURCE, None, body)
    return bool((review.get("status") or {}).get("allowed"))


def _job_resource(job: Job) -> Resource:
    group, _, version = job.owner.api_version.rpartition("/")
    return Resource(group, version, job.owner.plural, job.owner.kind)


def _role_name(job: Job) -> str:
    """Return the name of the account, the role and the binding: that of the master's service."""
    [master] = [group for group in job.groups if group.is_master]
    return replica_service_name(job, master.name, 0)


async def _ensure_role(client: KubeClient, job: Job, plan_resource: Resource) -> None:
    rules = [policy_rule(permission) for permission in master_permissions(_job_resource(job), plan_resource)]
    await _ensure_object(client, job, ROLES_RESOURCE, {"rules": rules})


async def _ensure_object(client: KubeClient, job: Job, resource: Resource, content: Mapping[str, Any]) -> None:
    """Create an object, or update that of the job; raise NameConflict if it belongs to anything else."""
    namespace, name = job.key.namespace, _role_name(job)
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": job_labels(job),
        "ownerReferences": owner_references(job.owner),
    }
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
    try:
        await client.create(resource, namespace, body)
    except AlreadyExists:
        try:
            existing = await client.get(resource, namespace, name)
        except NotFound as error:
            raise RetryLater(f"{resource.kind} {name} existed and was deleted meanwhile") from error
        require_owned(job, resource.kind, msgspec.convert(existing["metadata"], ObjectMeta))
        # Another version of the operator granted other rules, or bound another account.
        changes = {field: value for field, value in content.items() if value != existing.get(field)}
        if changes:
            await client.patch(resource, namespace, name, changes)
    except Forbidden as error:
        raise Forbidden(error.status, error.reason, _forbidden_message(resource, name, error)) from error


def _forbidden_message(resource: Resource, name: str, error: ApiError) -> str:
    denied = f"the operator cannot create {resource.kind} {name} for the master"
    fix = "reapply the output of `pliant install`, which grants the missing permissions"
    return f"{denied} ({error}): {fix}"
