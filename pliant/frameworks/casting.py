"""Who plays which role in a job: groups bear any name, frameworks know a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Group, Job, JobKey, Naming
from pliant.model.labels import member_group, pod_name, service_name, service_of

Directory = tuple[tuple[str, tuple[str, ...], int], ...]
"""Who is where, in a form that can be remembered by."""


@dataclass(frozen=True)
class Cast:
    """The groups of a job in the order of their ranks, each in the role its name tells."""

    job: Job
    framework: Framework

    @cached_property
    def parts(self) -> tuple[tuple[Role, Group], ...]:
        """Every group and its role; a group with a name of its own plays the last role, the worker's."""
        roles = self.framework.roles
        cast = [(_role_of(group, roles), group) for group in self.job.groups]
        return tuple(sorted(cast, key=lambda part: roles.index(part[0])))

    def role(self, group: Group) -> str:
        """The role of a group."""
        return next(role.name for role, each in self.parts if each is group)

    def group(self, role: str) -> Group | None:
        """The first group in a role."""
        return next(self.groups(role), None)

    def groups(self, *roles: str) -> Iterator[Group]:
        """The groups in these roles, in the order of ranks; without roles all of them."""
        return (group for role, group in self.parts if not roles or role.name in roles)

    def size(self, *roles: str) -> int:
        """The number of members in these roles; without roles of all."""
        return sum(group.size for group in self.groups(*roles))

    def number(self, rank: Rank, *roles: str) -> int:
        """The number of a member among those in these roles, counted from 0."""
        before = 0
        for group in self.groups(*roles):
            if group.name == rank.group.name:
                return before + rank.index
            before += group.size
        return before + rank.index

    def first(self, *roles: str) -> Group | None:
        """The group whose first member is rank 0 among these roles."""
        return next((group for group in self.groups(*roles) if group.size), None)

    def port(self, group: Group) -> int:
        """Where members of a group listen: the port that bears the framework's name, their first, or the usual."""
        usual = self.framework.port
        named = [port.number for port in group.ports if usual and port.name == usual.name]
        return (named or [port.number for port in group.ports] or [usual.number if usual else 0])[0]

    def host(self, group: Group, index: int = 0) -> str:
        """The name of a member within its namespace."""
        return service_name(self.job, group.name, index)

    def hosts(self, *roles: str) -> list[str]:
        """The names of the members in these roles within their namespace, in the order of their numbers."""
        return [host for group in self.groups(*roles) for host in self.names(group)]

    def directory(self, *roles: str) -> Directory:
        """Every group in these roles: its role, the names of its members, their port."""
        return tuple(
            (role.name, self.names(group), self.port(group))
            for role, group in self.parts
            if not roles or role.name in roles
        )

    def endpoints(self, *roles: str, suffix: str = "") -> list[str]:
        """Where the members in these roles are reached: `host:port`, if need be with a domain after the host."""
        return [
            f"{host}{suffix}:{self.port(group)}" for group in self.groups(*roles) for host in self.names(group)
        ]

    def names(self, group: Group) -> tuple[str, ...]:
        """The names of all members of a group within their namespace."""
        naming = self.job.naming
        pod = naming.pods.get(member_group(group.name), naming.pod)
        return _names(pod, naming.service, self.job.key, group.name, group.size)


def generation_id(job: Job, group: Group) -> str:
    """An id that all members of a group share until they are restarted together; never the same for two jobs."""
    memory = job.state.group(group.name) if job.state else None
    floor = max(memory.job_floor, memory.group_floor) if memory else 0
    return blake2b(f"{job.owner.uid}/{floor}".encode(), digest_size=8).hexdigest()


def devices(group: Group) -> int:
    """The number of GPUs that each member of a group asks for."""
    containers = mapping_in(group.template, "spec").get("containers") or ()
    limits = [mapping_in(container, "resources", "limits") for container in containers]
    asked = [str(number) for each in limits for name, number in each.items() if name.endswith("/gpu")]
    return sum(int(number) for number in asked if number.isdecimal())


def mapping_in(value: Any, *path: str) -> Mapping[str, Any]:
    """What a template holds at a path; empty if that is no mapping: a server without a schema keeps anything."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@lru_cache(maxsize=256)
def _names(pod: str, service: str, job: JobKey, group: str, size: int) -> tuple[str, ...]:
    """Remembered, as every member is told of every other: that is the square of their number."""
    naming = Naming(pod=pod, service=service)
    return tuple(service_of(naming, pod_name(naming, job, group, index)) for index in range(size))


def _role_of(group: Group, roles: tuple[Role, ...]) -> Role:
    name = group.name.lower()
    return next((role for role in roles if name in (role.name, *role.aliases)), roles[-1])
