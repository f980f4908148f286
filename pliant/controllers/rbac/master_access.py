"""An account for a job's master, with the rights it needs in the job's namespace and no others."""

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
from pliant.model.labels import job_labels, replica_service_name

ROLES = Resource(RBAC_API_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(RBAC_API_GROUP, "v1", "rolebindings", "RoleBinding")


async def grant_master_access(client: KubeClient, job: Job, action: GrantMasterAccess, plan_resource: Resource) -> None:
    """Make the account, unless it is somebody's own, and let it do what masters do; raises Forbidden, and why."""
    rules = [policy_rule(right) for right in master_permissions(_job_resource(job), plan_resource)]
    made: list[tuple[Resource, dict[str, Any]]] = [(SERVICE_ACCOUNTS, {})] if action.should_create_account else []
    made += [(ROLES, {"rules": rules}), (ROLE_BINDINGS, _binding_fields(job, action))]
    for resource, content in made:
        try:
            await _ensure_object(client, job, resource, {**_owned_object(job, resource, action), **content})
        except Forbidden as refused:
            raise Forbidden(refused.status, refused.reason, _forbidden_message(action, resource, refused)) from refused


def _job_resource(job: Job) -> Resource:
    group, _, version = job.owner.api_version.rpartition("/")
    return Resource(group, version, job.owner.plural, job.owner.kind)


def _role_name(job: Job) -> str:
    """What belongs to a master is named as it is called."""
    [control] = [group for group in job.groups if group.is_master]
    return replica_service_name(job, control.name, 0)


def _owned_object(job: Job, resource: Resource, action: GrantMasterAccess) -> dict[str, Any]:
    owner = job.owner
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": action.service_account if resource is SERVICE_ACCOUNTS else _role_name(job),
            "namespace": job.key.namespace,
            "labels": job_labels(job),
            "ownerReferences": [
                {
                    "apiVersion": owner.api_version,
                    "kind": owner.kind,
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
    }


def _binding_fields(job: Job, action: GrantMasterAccess) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "name": action.service_account, "namespace": job.key.namespace}
    return {"roleRef": {"apiGroup": RBAC_API_GROUP, "kind": "Role", "name": _role_name(job)}, "subjects": [account]}


async def _ensure_object(client: KubeClient, job: Job, resource: Resource, body: Mapping[str, Any]) -> None:
    """Create an object, or find it there: that of an earlier job of the same name is on its way out."""
    namespace, name = job.key.namespace, body["metadata"]["name"]
    try:
        await client.create(resource, namespace, body)
    except AlreadyExists:
        try:
            found = await client.get(resource, namespace, name)
        except NotFound as gone:
            raise RetryLater(f"{resource.kind} {name} was in the way and is gone") from gone
        owners = [ref for ref in found["metadata"].get("ownerReferences") or () if ref.get("controller")]
        if owners and all(ref.get("uid") != job.owner.uid for ref in owners):
            other = f"{owners[0].get('kind')} {owners[0].get('name')}"
            raise RetryLater(f"{resource.kind} {name} is that of another {other}, and in the way") from None
        # An earlier version of ours granted something else, or the job had its master use another account.
        granted = {field: body[field] for field in ("rules", "subjects") if field in body}
        news = {field: value for field, value in granted.items() if value != found.get(field)}
        if owners and news:
            await client.patch(resource, namespace, name, news)


def _forbidden_message(action: GrantMasterAccess, resource: Resource, error: Forbidden) -> str:
    said = f"the operator may not create a {resource.kind} for the account {action.service_account} of the job's master"
    said = f"{said} ({error})"
    cure = "apply the output of `pliant install` again, which grants what it needs"
    own = f"or give the account {action.service_account} these rights yourself"
    return f"{said}: {cure}" if action.should_create_account else f"{said}: {cure}, {own}"
