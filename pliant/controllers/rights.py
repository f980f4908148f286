"""Every right the operator needs, and why: what `pliant doctor` asks a cluster for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pliant.controllers.events import EVENTS
from pliant.frontends import FRONTENDS
from pliant.frontends.base import Frontend
from pliant.kube.resources import LEASES, PODS, SERVICES, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What may be done to one resource, or to a part of it."""

    group: str
    resource: str
    subresource: str = ""
    verbs: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}{part}.{self.group}" if self.group else f"{self.resource}{part}"


MEMBERS = ("create", "delete", "get", "list", "watch")


def needed_rights(frontends: Iterable[Frontend] = tuple(FRONTENDS.values())) -> Iterator[Right]:
    """What the operator does to the objects of a cluster, resource by resource."""
    yield _right(PODS, MEMBERS, "to start, follow and clean up members")
    yield _right(SERVICES, MEMBERS, "to give members names")
    yield _right(EVENTS, ("create", "get", "patch"), "to tell what happened")
    yield _right(LEASES, ("create", "get", "list", "patch", "watch"), "to agree on one leader")
    for frontend in frontends:
        kind = Resource(frontend.group, frontend.version, frontend.plural, frontend.kind)
        yield _right(kind, ("list", "watch"), "to see jobs")
        yield _right(kind, ("patch",), "to tell how jobs fare", subresource="status")
        yield _right(kind, ("update",), "to own members, where owners are checked", subresource="finalizers")


def _right(resource: Resource, verbs: tuple[str, ...], why: str, *, subresource: str = "") -> Right:
    return Right(group=resource.group, resource=resource.plural, subresource=subresource, verbs=verbs, why=why)
