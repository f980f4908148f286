"""Every permission that the operator needs and its purpose; used by `pliant doctor` and `pliant install`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pliant.controllers.events import EVENTS_RESOURCE
from pliant.frontends.frontend import Frontend, PlanFrontend
from pliant.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pliant.kube.resources import EVENTS as CORE_EVENTS
from pliant.model.job import Job
from pliant.plugins.registry import registered_kinds


class PermissionScope(StrEnum):
    JOB_NAMESPACES = "job namespaces"
    OPERATOR_NAMESPACE = "operator namespace"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    group: str
    resource: str
    subresource: str = ""
    verbs: tuple[str, ...]
    purpose: str
    scope: PermissionScope = PermissionScope.JOB_NAMESPACES
    resource_name: str = ""  # the only object that is accessed; empty for all
    is_optional: bool = False  # whether the operator works without it

    def __str__(self) -> str:
        return f"{self.resource_path}.{self.group}" if self.group else self.resource_path

    @property
    def resource_path(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


PATCH_PURPOSE = "to adopt objects of another operator, and to store acknowledged checkpoints in pods"
OWNED_OBJECT_VERBS = ("create", "delete", "get", "list", "watch")


def operator_permissions(lease_name: str, frontends: Iterable[Frontend] | None = None) -> Iterator[Permission]:
    """Yield the permissions of an operator that uses a lease of this name."""
    frontends = tuple(registered_kinds().values() if frontends is None else frontends)
    permissions = list(_frontend_permissions(frontends))
    mandatory = [permission for permission in permissions if not permission.is_optional]
    required = {(str(permission), verb) for permission in mandatory for verb in permission.verbs}
    for permission in permissions:
        # A permission that is optional for one kind may be required by another.
        if not (permission.is_optional and all((str(permission), verb) in required for verb in permission.verbs)):
            yield permission
    quotas = _permission(RESOURCE_QUOTAS, ("list", "watch"), "to keep sizes within resource quotas")
    yield replace(quotas, is_optional=True)
    nodes = _permission(NODES, ("list", "watch"), "to detect node failures and measure cluster capacity")
    yield replace(nodes, scope=PermissionScope.CLUSTER, is_optional=True)
    classes = _permission(PRIORITY_CLASSES, ("get", "list", "watch"), "to set only priority classes that exist")
    yield replace(classes, scope=PermissionScope.CLUSTER, is_optional=True)
    has_masters = any(frontend.plan_frontend is not None for frontend in frontends)
    yield from _operator_namespace_permissions(lease_name, requires_keys=has_masters)


def _frontend_permissions(frontends: Iterable[Frontend]) -> Iterator[Permission]:
    yield from _replica_permissions()
    for frontend in frontends:
        kind = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        yield from _job_permissions(kind)
        if frontend.plan_frontend is not None:
            yield from _master_management_permissions(kind, frontend.plan_frontend)


def _job_permissions(job_resource: Resource) -> Iterator[Permission]:
    yield _permission(job_resource, ("get", "list", "watch"), "to watch jobs")
    yield _permission(job_resource, ("delete",), "to delete finished jobs after their TTL")
    yield _permission(job_resource, ("patch",), "to update job status", subresource="status")
    yield _permission(job_resource, ("update",), "to set blocking owner references", subresource="finalizers")


def _replica_permissions() -> Iterator[Permission]:
    yield _permission(PODS, OWNED_OBJECT_VERBS, "to create, watch and delete pods")
    yield _permission(SERVICES, OWNED_OBJECT_VERBS, "to create and delete services for replicas")
    for resource in (PODS, SERVICES):
        yield replace(_permission(resource, ("patch",), PATCH_PURPOSE), is_optional=True)
    yield _permission(CONFIG_MAPS, ("create", "get"), "to pass environments that exceed pod limits")
    yield _permission(CONFIG_MAPS, ("patch",), "to pass the membership of elastic jobs as files")
    budgets = _permission(
        POD_DISRUPTION_BUDGETS, ("create", "get"), "to hold drains until replicas have saved their state"
    )
    yield replace(budgets, is_optional=True)
    yield _permission(EVENTS_RESOURCE, ("create", "get", "patch"), "to emit events")


def master_permissions(job_resource: Resource, plan_resource: Resource) -> Iterator[Permission]:
    """Yield the permissions of a job's master in the job's namespace."""
    yield _permission(job_resource, ("get", "list", "watch"), "to watch its job")
    yield _permission(job_resource, ("update",), "to set blocking owner references", subresource="finalizers")
    yield _permission(PODS, ("create", "delete", "get", "list", "patch", "watch"), "to create, watch and delete pods")
    yield _permission(SERVICES, ("create", "get", "list", "patch"), "to create services for replicas")
    yield _permission(plan_resource, ("create", "delete", "get", "list", "patch", "watch"), "to write scale plans")
    yield _permission(CONFIG_MAPS, ("create", "get", "list", "patch", "update", "watch"), "to persist its state")
    for events in (CORE_EVENTS, EVENTS_RESOURCE):
        yield _permission(events, ("create", "patch"), "to emit events")


def required_master_permissions(job: Job, job_resource: Resource, plan_resource: Resource) -> Iterator[Permission]:
    """Yield the permissions without which the master of a job cannot work."""
    if job.master is not None and job.master.checks_keys:
        yield _permission(job_resource, ("get", "list", "watch"), "to watch its job")
        yield _permission(PODS, ("list", "watch"), "to watch its members")
        yield _permission(plan_resource, ("create", "list", "watch"), "to write scale plans")
        yield _permission(CONFIG_MAPS, ("create", "get", "update"), "to persist its state")
        return
    for permission in master_permissions(job_resource, plan_resource):
        if not permission.subresource and permission.resource != CORE_EVENTS.plural:
            yield permission


def _master_management_permissions(job_resource: Resource, plan_kind: PlanFrontend) -> Iterator[Permission]:
    """Yield what jobs with masters need: scale plans, accounts, and every permission granted to masters."""
    plans = Resource(plan_kind.group, plan_kind.version, plan_kind.plural, plan_kind.kind)
    plan_access = _permission(plans, ("delete", "get", "list", "patch", "watch"), "to apply and delete scale plans")
    yield plan_access
    yield _permission(plans, ("patch",), "to update scale plan status", subresource="status")
    yield _permission(SERVICE_ACCOUNTS, ("create", "get"), "to create a service account for each master")
    for plural in ("roles", "rolebindings"):
        access = Resource("rbac.authorization.k8s.io", "v1", plural, "")
        yield _permission(access, ("create", "get", "patch"), "to grant masters their permissions")
    reviews = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "")
    review = _permission(reviews, ("create",), "to check the permissions of accounts that users name for masters")
    yield replace(review, scope=PermissionScope.CLUSTER, is_optional=True)
    # RBAC lets an account grant only permissions that it holds itself.
    mandatory = [*_replica_permissions(), *_job_permissions(job_resource), plan_access]
    for permission in master_permissions(job_resource, plans):
        held = [each for each in mandatory if str(each) == str(permission) and not each.is_optional]
        if verbs := tuple(verb for verb in permission.verbs if not any(verb in each.verbs for each in held)):
            yield replace(permission, verbs=verbs, purpose=f"to grant to masters: {permission.purpose}")


def _operator_namespace_permissions(lease_name: str, *, requires_keys: bool) -> Iterator[Permission]:
    # RBAC cannot restrict `create` to a resource name.
    scope = PermissionScope.OPERATOR_NAMESPACE
    for verbs, name in ((("create",), ""), (("get", "list", "patch", "watch"), lease_name)):
        yield replace(_permission(LEASES, verbs, "for leader election"), scope=scope, resource_name=name)
    for verbs, name in ((("create",), ""), (("get",), key_secret_name(lease_name))):
        secrets = _permission(SECRETS, verbs, "to derive the keys of jobs")
        yield replace(secrets, scope=scope, resource_name=name, is_optional=not requires_keys)


def key_secret_name(lease_name: str) -> str:
    """Return the name of the Secret from which the operators of a lease derive the keys of jobs."""
    return f"{lease_name}-reports"


def _permission(resource: Resource, verbs: tuple[str, ...], purpose: str, *, subresource: str = "") -> Permission:
    return Permission(
        group=resource.group, resource=resource.plural, subresource=subresource, verbs=verbs, purpose=purpose
    )
