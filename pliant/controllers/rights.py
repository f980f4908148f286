"""Every right the operator needs, and why: what `pliant doctor` asks for and `pliant install` gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from pliant.controllers.events import EVENTS
from pliant.frontends.base import Frontend, PlanKind
from pliant.kube.resources import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    PODS,
    QUOTAS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Resource,
)
from pliant.kube.resources import EVENTS as CORE_EVENTS
from pliant.plugins.known import kinds


class Where(StrEnum):
    """In which namespaces a right is needed."""

    JOBS = "where jobs are"
    HOME = "where the operator is"
    CLUSTER = "in no namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What may be done to one resource, or to a part of it."""

    group: str
    resource: str
    subresource: str = ""
    verbs: tuple[str, ...]
    why: str
    where: Where = Where.JOBS
    name: str = ""
    """The one object that is meant; every one when empty."""
    is_optional: bool = False
    """Whether the operator does without, if it must."""

    def __str__(self) -> str:
        return f"{self.path}.{self.group}" if self.group else self.path

    @property
    def path(self) -> str:
        """The resource, and the part of it that is meant, as roles name them."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


MEMBERS = ("create", "delete", "get", "list", "watch")


def needed_rights(lease: str, frontends: Iterable[Frontend] | None = None) -> Iterator[Right]:
    """What the operator that competes for a lease of this name does to a cluster, resource by resource."""
    every = list(_rights_for(kinds().values() if frontends is None else frontends))
    needed = {(str(right), verb) for right in every if not right.is_optional for verb in right.verbs}
    for right in every:
        # What one kind could do without another may need.
        if not (right.is_optional and all((str(right), verb) in needed for verb in right.verbs)):
            yield right
    yield replace(_right(QUOTAS, ("list", "watch"), "to keep sizes within quotas"), is_optional=True)
    yield from _cluster_rights()
    yield from _lease_rights(lease)
    yield from _report_rights(lease)


def _rights_for(frontends: Iterable[Frontend]) -> Iterator[Right]:
    yield from _member_rights()
    for frontend in frontends:
        kind = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        yield from _job_rights(kind)
        if frontend.plans is not None:
            yield from _mastered_rights(kind, frontend.plans)


def _job_rights(kind: Resource) -> Iterator[Right]:
    yield _right(kind, ("get", "list", "watch"), "to see jobs")
    yield _right(kind, ("delete",), "to take away jobs whose time is over")
    yield _right(kind, ("patch",), "to tell how jobs fare", subresource="status")
    yield _right(kind, ("update",), "to own members, where owners are checked", subresource="finalizers")


def _member_rights() -> Iterator[Right]:
    yield _right(PODS, MEMBERS, "to start, follow and clean up members")
    yield _right(SERVICES, MEMBERS, "to give members names")
    for members in (PODS, SERVICES):
        yield replace(_right(members, ("patch",), "to take over what another operator made"), is_optional=True)
    yield _right(CONFIG_MAPS, ("create", "get"), "to hand members what their environment is too small for")
    yield _right(EVENTS, ("create", "get", "patch"), "to tell what happened")


def master_rights(jobs: Resource, plans: Resource) -> Iterator[Right]:
    """What a job's master does in its namespace, ours or another one."""
    yield _right(jobs, ("get", "list", "watch"), "to know its job")
    yield _right(jobs, ("update",), "to own members, where owners are checked", subresource="finalizers")
    yield _right(PODS, ("create", "delete", "get", "list", "patch", "watch"), "to follow members, or to make them")
    yield _right(SERVICES, ("create", "get", "list", "patch"), "to give members names")
    yield _right(plans, ("create", "delete", "get", "list", "patch", "watch"), "to ask for other members")
    yield _right(CONFIG_MAPS, ("create", "get", "list", "patch", "update", "watch"), "to leave a memory")
    for events in (CORE_EVENTS, EVENTS):
        yield _right(events, ("create", "patch"), "to tell what happened")


def _mastered_rights(jobs: Resource, kind: PlanKind) -> Iterator[Right]:
    """What jobs with masters of their own take: plans, accounts, and all that a master is granted in turn."""
    plans = Resource(kind.group, kind.version, kind.plural, kind.kind)
    own = _right(plans, ("delete", "get", "list", "patch", "watch"), "to carry out plans, and to clear them away")
    yield own
    yield _right(plans, ("patch",), "to tell how plans fare", subresource="status")
    yield _right(SERVICE_ACCOUNTS, ("create", "get"), "to give masters an account each")
    for plural in ("roles", "rolebindings"):
        access = Resource("rbac.authorization.k8s.io", "v1", plural, "")
        yield _right(access, ("create", "get", "patch"), "to give masters the rights they need")
    # Nobody may grant what they have not got.
    held = [*_member_rights(), *_job_rights(jobs), own]
    for right in master_rights(jobs, plans):
        has = {verb for each in held if str(each) == str(right) and not each.is_optional for verb in each.verbs}
        if verbs := tuple(verb for verb in right.verbs if verb not in has):
            yield replace(right, verbs=verbs, why=f"so that masters may: {right.why}")


def _cluster_rights() -> Iterator[Right]:
    yield Right(
        group=NODES.group,
        resource=NODES.plural,
        verbs=("list", "watch"),
        why="to tell a lost node from a failed member, and how much room there is",
        where=Where.CLUSTER,
        is_optional=True,
    )


def _lease_rights(lease: str) -> Iterator[Right]:
    # Whoever creates an object has not named it yet, as far as roles can tell.
    for verbs, name in ((("create",), ""), (("get", "list", "patch", "watch"), lease)):
        yield Right(
            group=LEASES.group,
            resource=LEASES.plural,
            verbs=verbs,
            why="to agree on one leader",
            where=Where.HOME,
            name=name,
        )


def _report_rights(lease: str) -> Iterator[Right]:
    for verbs, name in ((("create",), ""), (("get",), secret_name(lease))):
        yield Right(
            group=SECRETS.group,
            resource=SECRETS.plural,
            verbs=verbs,
            why="to tell reports of members from others",
            where=Where.HOME,
            name=name,
            is_optional=True,
        )


def secret_name(lease: str) -> str:
    """What holds the secret by which operators of one lease know the reports of members."""
    return f"{lease}-reports"


def _right(resource: Resource, verbs: tuple[str, ...], why: str, *, subresource: str = "") -> Right:
    return Right(group=resource.group, resource=resource.plural, subresource=subresource, verbs=verbs, why=why)
