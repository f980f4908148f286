"""The service account and role of a job's master in the job's namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.controllers.rbac.operator_roles import RBAC_API_GROUP, policy_rule
from pliant.controllers.rbac.permissions import master_permissions
from pliant.errors import AlreadyExists, Forbidden, NotFound, RetryLater
from pliant.kube.client import KubeClient
from pliant.kube.resources import SERVICE_ACCOUNTS, Resource
from pliant.model.actions import GrantMasterAccess
from pliant.model.job import Job
from pliant.model.labels import job_labels, owner_references, replica_service_name

ROLES_RESOURCE = Resource(RBAC_API_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS_RESOURCE = Resource(RBAC_API_GROUP, "v1", "rolebindings", "RoleBinding")


async def grant_master_access(client: KubeClient, job: Job, action: GrantMasterAccess, plan_resource: Resource) -> None:
    """Create the service account, unless the user brought one, its role and its binding; raise Forbidden if denied."""
    rules = [policy_rule(permission) for permission in master_permissions(_job_resource(job), plan_resource)]
    objects: list[tuple[Resource, dict[str, Any]]] = [(SERVICE_ACCOUNTS, {})] if action.should_create_account else []
    objects += [(ROLES_RESOURCE, {"rules": rules}), (ROLE_BINDINGS_RESOURCE, _binding_fields(job, action))]
    for resource, content in objects:
        try:
            await _ensure_object(client, job, resource, {**_owned_object(job, resource, action), **content})
        except Forbidden as error:
            raise Forbidden(error.status, error.reason, _forbidden_message(action, resource, error)) from error


def _job_resource(job: Job) -> Resource:
    group, _, version = job.owner.api_version.rpartition("/")
    return Resource(group, version, job.owner.plural, job.owner.kind)


def _role_name(job: Job) -> str:
    [master] = [group for group in job.groups if group.is_master]
    return replica_service_name(job, master.name, 0)


def _owned_object(job: Job, resource: Resource, action: GrantMasterAccess) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": action.service_account if resource is SERVICE_ACCOUNTS else _role_name(job),
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": owner_references(job.owner),
        },
    }


def _binding_fields(job: Job, action: GrantMasterAccess) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "name": action.service_account, "namespace": job.key.namespace}
    return {"roleRef": {"apiGroup": RBAC_API_GROUP, "kind": "Role", "name": _role_name(job)}, "subjects": [account]}


async def _ensure_object(client: KubeClient, job: Job, resource: Resource, body: Mapping[str, Any]) -> None:
    """Create an object or update the job's own; raise RetryLater if it belongs to an earlier job of this name."""
    namespace, name = job.key.namespace, body["metadata"]["name"]
    try:
        await client.create(resource, namespace, body)
    except AlreadyExists:
        try:
            existing = await client.get(resource, namespace, name)
        except NotFound as error:
            raise RetryLater(f"{resource.kind} {name} existed and was deleted meanwhile") from error
        owners = [ref for ref in existing["metadata"].get("ownerReferences") or () if ref.get("controller")]
        if owners and all(ref.get("uid") != job.owner.uid for ref in owners):
            other = f"{owners[0].get('kind')} {owners[0].get('name')}"
            raise RetryLater(f"{resource.kind} {name} exists and belongs to another {other}") from None
        # Another version of the operator granted other rules, or the job's service account has changed.
        granted = {field: body[field] for field in ("rules", "subjects") if field in body}
        changes = {field: value for field, value in granted.items() if value != existing.get(field)}
        if owners and changes:
            await client.patch(resource, namespace, name, changes)


def _forbidden_message(action: GrantMasterAccess, resource: Resource, error: Forbidden) -> str:
    denied = f"the operator cannot create a {resource.kind} for the master's service account {action.service_account}"
    fix = "reapply the output of `pliant install`, which grants the missing permissions"
    grant = "" if action.should_create_account else f", or grant {action.service_account} these permissions yourself"
    return f"{denied} ({error}): {fix}{grant}"
