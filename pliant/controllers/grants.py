"""An account for a job's master, with the rights it needs in the job's namespace and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.controllers.rights import master_rights
from pliant.controllers.roles import RBAC, rule_of
from pliant.errors import AlreadyExists, Forbidden, NotFound, NotYet
from pliant.kube.client import KubeClient
from pliant.kube.resources import SERVICE_ACCOUNTS, Resource
from pliant.model.actions import GrantAccess
from pliant.model.job import Job
from pliant.model.labels import job_labels, service_name

ROLES = Resource(RBAC, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(RBAC, "v1", "rolebindings", "RoleBinding")


async def grant(client: KubeClient, job: Job, action: GrantAccess, plans: Resource) -> None:
    """Make the account, unless it is somebody's own, and let it do what masters do; raises Forbidden, and why."""
    rules = [rule_of(right) for right in master_rights(_jobs(job), plans)]
    made: list[tuple[Resource, dict[str, Any]]] = [(SERVICE_ACCOUNTS, {})] if action.is_ours else []
    made += [(ROLES, {"rules": rules}), (ROLE_BINDINGS, _binding(job, action))]
    for resource, content in made:
        try:
            await _ensure(client, job, resource, {**_object(job, resource, action), **content})
        except Forbidden as refused:
            raise Forbidden(refused.status, refused.reason, _advice(action, resource, refused)) from refused


def _jobs(job: Job) -> Resource:
    group, _, version = job.owner.api_version.rpartition("/")
    return Resource(group, version, job.owner.plural, job.owner.kind)


def _name(job: Job) -> str:
    """What belongs to a master is named as it is called."""
    [control] = [group for group in job.groups if group.is_control]
    return service_name(job, control.name, 0)


def _object(job: Job, resource: Resource, action: GrantAccess) -> dict[str, Any]:
    owner = job.owner
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": action.account if resource is SERVICE_ACCOUNTS else _name(job),
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


def _binding(job: Job, action: GrantAccess) -> dict[str, Any]:
    account = {"kind": "ServiceAccount", "name": action.account, "namespace": job.key.namespace}
    return {"roleRef": {"apiGroup": RBAC, "kind": "Role", "name": _name(job)}, "subjects": [account]}


async def _ensure(client: KubeClient, job: Job, resource: Resource, body: Mapping[str, Any]) -> None:
    """Create an object, or find it there: that of an earlier job of the same name is on its way out."""
    namespace, name = job.key.namespace, body["metadata"]["name"]
    try:
        await client.create(resource, namespace, body)
    except AlreadyExists:
        try:
            found = await client.get(resource, namespace, name)
        except NotFound as gone:
            raise NotYet(f"{resource.kind} {name} was in the way and is gone") from gone
        owners = [ref for ref in found["metadata"].get("ownerReferences") or () if ref.get("controller")]
        if owners and all(ref.get("uid") != job.owner.uid for ref in owners):
            other = f"{owners[0].get('kind')} {owners[0].get('name')}"
            raise NotYet(f"{resource.kind} {name} is that of another {other}, and in the way") from None
        # An earlier version of ours granted something else, or the job had its master use another account.
        granted = {field: body[field] for field in ("rules", "subjects") if field in body}
        news = {field: value for field, value in granted.items() if value != found.get(field)}
        if owners and news:
            await client.patch(resource, namespace, name, news)


def _advice(action: GrantAccess, resource: Resource, refused: Forbidden) -> str:
    said = f"the operator may not create a {resource.kind} for the account {action.account} of the job's master"
    said = f"{said} ({refused})"
    cure = "apply the output of `pliant install` again, which grants what it needs"
    own = f"or give the account {action.account} these rights yourself"
    return f"{said}: {cure}" if action.is_ours else f"{said}: {cure}, {own}"
