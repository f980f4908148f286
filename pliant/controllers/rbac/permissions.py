"""Every right the operator needs, and why: what `pliant doctor` asks for and `pliant install` gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pliant.controllers.events import EVENTS
from pliant.frontends.frontend import Frontend, PlanFrontend
from pliant.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pliant.kube.resources import EVENTS as CORE_EVENTS
from pliant.plugins.registry import registered_kinds


class PermissionScope(StrEnum):
    """In which namespaces a right is needed."""

    JOB_NAMESPACES = "where jobs are"
    OPERATOR_NAMESPACE = "where the operator is"
    CLUSTER = "in no namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What may be done to one resource, or to a part of it."""

    group: str
    resource: str
    subresource: str = ""
    verbs: tuple[str, ...]
    purpose: str
    scope: PermissionScope = PermissionScope.JOB_NAMESPACES
    resource_name: str = ""
    """The one object that is meant; every one when empty."""
    is_optional: bool = False
    """Whether the operator does without, if it must."""

    def __str__(self) -> str:
        return f"{self.resource_path}.{self.group}" if self.group else self.resource_path

    @property
    def resource_path(self) -> str:
        """The resource, and the part of it that is meant, as roles name them."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


OWNED_OBJECT_VERBS = ("create", "delete", "get", "list", "watch")


def operator_permissions(lease_name: str, frontends: Iterable[Frontend] | None = None) -> Iterator[Permission]:
    """What the operator that competes for a lease of this name does to a cluster, resource by resource."""
    every = list(_frontend_permissions(registered_kinds().values() if frontends is None else frontends))
    needed = {(str(right), verb) for right in every if not right.is_optional for verb in right.verbs}
    for right in every:
        # What one kind could do without another may need.
        if not (right.is_optional and all((str(right), verb) in needed for verb in right.verbs)):
            yield right
    yield replace(_permission(RESOURCE_QUOTAS, ("list", "watch"), "to keep sizes within quotas"), is_optional=True)
    yield from _cluster_permissions()
    yield from _lease_permissions(lease_name)
    yield from _report_secret_permissions(lease_name)


def _frontend_permissions(frontends: Iterable[Frontend]) -> Iterator[Permission]:
    yield from _replica_permissions()
    for frontend in frontends:
        kind = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        yield from _job_permissions(kind)
        if frontend.plan_frontend is not None:
            yield from _master_management_permissions(kind, frontend.plan_frontend)


def _job_permissions(job_resource: Resource) -> Iterator[Permission]:
    yield _permission(job_resource, ("get", "list", "watch"), "to see jobs")
    yield _permission(job_resource, ("delete",), "to take away jobs whose time is over")
    yield _permission(job_resource, ("patch",), "to tell how jobs fare", subresource="status")
    yield _permission(job_resource, ("update",), "to own members, where owners are checked", subresource="finalizers")


def _replica_permissions() -> Iterator[Permission]:
    yield _permission(PODS, OWNED_OBJECT_VERBS, "to start, follow and clean up members")
    yield _permission(SERVICES, OWNED_OBJECT_VERBS, "to give members names")
    for members in (PODS, SERVICES):
        yield replace(_permission(members, ("patch",), "to take over what another operator made"), is_optional=True)
    yield _permission(CONFIG_MAPS, ("create", "get"), "to hand members what their environment is too small for")
    yield _permission(EVENTS, ("create", "get", "patch"), "to tell what happened")


def master_permissions(job_resource: Resource, plan_resource: Resource) -> Iterator[Permission]:
    """What a job's master does in its namespace, ours or another one."""
    yield _permission(job_resource, ("get", "list", "watch"), "to know its job")
    yield _permission(job_resource, ("update",), "to own members, where owners are checked", subresource="finalizers")
    yield _permission(PODS, ("create", "delete", "get", "list", "patch", "watch"), "to follow members, or to make them")
    yield _permission(SERVICES, ("create", "get", "list", "patch"), "to give members names")
    yield _permission(plan_resource, ("create", "delete", "get", "list", "patch", "watch"), "to ask for other members")
    yield _permission(CONFIG_MAPS, ("create", "get", "list", "patch", "update", "watch"), "to leave a memory")
    for events in (CORE_EVENTS, EVENTS):
        yield _permission(events, ("create", "patch"), "to tell what happened")


def _master_management_permissions(job_resource: Resource, plan_kind: PlanFrontend) -> Iterator[Permission]:
    """What jobs with masters of their own take: plans, accounts, and all that a master is granted in turn."""
    plans = Resource(plan_kind.group, plan_kind.version, plan_kind.plural, plan_kind.kind)
    own = _permission(plans, ("delete", "get", "list", "patch", "watch"), "to carry out plans, and to clear them away")
    yield own
    yield _permission(plans, ("patch",), "to tell how plans fare", subresource="status")
    yield _permission(SERVICE_ACCOUNTS, ("create", "get"), "to give masters an account each")
    for plural in ("roles", "rolebindings"):
        access = Resource("rbac.authorization.k8s.io", "v1", plural, "")
        yield _permission(access, ("create", "get", "patch"), "to give masters the rights they need")
    # Nobody may grant what they have not got.
    held = [*_replica_permissions(), *_job_permissions(job_resource), own]
    for right in master_permissions(job_resource, plans):
        has = {verb for each in held if str(each) == str(right) and not each.is_optional for verb in each.verbs}
        if verbs := tuple(verb for verb in right.verbs if verb not in has):
            yield replace(right, verbs=verbs, purpose=f"so that masters may: {right.purpose}")


def _cluster_permissions() -> Iterator[Permission]:
    yield Permission(
        group=NODES.group,
        resource=NODES.plural,
        verbs=("list", "watch"),
        purpose="to tell a lost node from a failed member, and how much room there is",
        scope=PermissionScope.CLUSTER,
        is_optional=True,
    )


def _lease_permissions(lease_name: str) -> Iterator[Permission]:
    # Whoever creates an object has not named it yet, as far as roles can tell.
    for verbs, name in ((("create",), ""), (("get", "list", "patch", "watch"), lease_name)):
        yield Permission(
            group=LEASES.group,
            resource=LEASES.plural,
            verbs=verbs,
            purpose="to agree on one leader",
            scope=PermissionScope.OPERATOR_NAMESPACE,
            resource_name=name,
        )


def _report_secret_permissions(lease_name: str) -> Iterator[Permission]:
    for verbs, name in ((("create",), ""), (("get",), report_secret_name(lease_name))):
        yield Permission(
            group=SECRETS.group,
            resource=SECRETS.plural,
            verbs=verbs,
            purpose="to tell reports of members from others",
            scope=PermissionScope.OPERATOR_NAMESPACE,
            resource_name=name,
            is_optional=True,
        )


def report_secret_name(lease_name: str) -> str:
    """What holds the secret by which operators of one lease know the reports of members."""
    return f"{lease_name}-reports"


def _permission(resource: Resource, verbs: tuple[str, ...], purpose: str, *, subresource: str = "") -> Permission:
    return Permission(
        group=resource.group, resource=resource.plural, subresource=subresource, verbs=verbs, purpose=purpose
    )
