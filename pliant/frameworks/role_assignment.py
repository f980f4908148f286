"""Who plays which role in a job: groups bear any name, frameworks know a few."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, JobKey, Naming, ReplicaGroup
from pliant.model.labels import format_pod_name, format_service_name, normalize_group_name, replica_service_name

AddressTable = tuple[tuple[str, tuple[str, ...], int], ...]
"""Who is where, in a form that can be remembered by."""


@dataclass(frozen=True)
class RoleAssignment:
    """The groups of a job in the order of their ranks, each in the role its name tells."""

    job: Job
    framework: Framework

    @cached_property
    def assignments(self) -> tuple[tuple[Role, ReplicaGroup], ...]:
        """Every group and its role; a group with a name of its own plays the last role, the worker's."""
        roles = self.framework.roles
        cast = [(_find_role(group, roles), group) for group in self.job.groups]
        return tuple(sorted(cast, key=lambda part: roles.index(part[0])))

    def role_name(self, group: ReplicaGroup) -> str:
        """The role of a group."""
        return next(role.name for role, each in self.assignments if each is group)

    def first_group(self, role: str) -> ReplicaGroup | None:
        """The first group in a role."""
        return next(self.groups(role), None)

    def groups(self, *roles: str) -> Iterator[ReplicaGroup]:
        """The groups in these roles, in the order of ranks; without roles all of them."""
        return (group for role, group in self.assignments if not roles or role.name in roles)

    def count_replicas(self, *roles: str) -> int:
        """The number of members in these roles; without roles of all."""
        return sum(group.size for group in self.groups(*roles))

    def global_rank(self, rank: Rank, *roles: str) -> int:
        """The number of a member among those in these roles, counted from 0."""
        before = 0
        for group in self.groups(*roles):
            if group.name == rank.group.name:
                return before + rank.index
            before += group.size
        return before + rank.index

    def rank0_group(self, *roles: str) -> ReplicaGroup | None:
        """The group whose first member is rank 0 among these roles."""
        return next((group for group in self.groups(*roles) if group.size), None)

    def group_port(self, group: ReplicaGroup) -> int:
        """Where members of a group listen: the port that bears the framework's name, their first, or the usual."""
        usual = self.framework.port
        named = [port.number for port in group.ports if usual and port.name == usual.name]
        return (named or [port.number for port in group.ports] or [usual.number if usual else 0])[0]

    def host(self, group: ReplicaGroup, index: int = 0) -> str:
        """The name of a member within its namespace."""
        return replica_service_name(self.job, group.name, index)

    def hosts(self, *roles: str) -> list[str]:
        """The names of the members in these roles within their namespace, in the order of their numbers."""
        return [host for group in self.groups(*roles) for host in self.group_hosts(group)]

    def address_table(self, *roles: str) -> AddressTable:
        """Every group in these roles: its role, the names of its members, their port."""
        return tuple(
            (role.name, self.group_hosts(group), self.group_port(group))
            for role, group in self.assignments
            if not roles or role.name in roles
        )

    def endpoints(self, *roles: str, suffix: str = "") -> list[str]:
        """Where the members in these roles are reached: `host:port`, if need be with a domain after the host."""
        return [
            f"{host}{suffix}:{self.group_port(group)}"
            for group in self.groups(*roles)
            for host in self.group_hosts(group)
        ]

    def group_hosts(self, group: ReplicaGroup) -> tuple[str, ...]:
        """The names of all members of a group within their namespace."""
        naming = self.job.naming
        pod = naming.pod_overrides.get(normalize_group_name(group.name), naming.pod)
        return _cached_hosts(pod, naming.service, self.job.key, group.name, group.size)


def generation_id(job: Job, group: ReplicaGroup) -> str:
    """An id that all members of a group share until they are restarted together; never the same for two jobs."""
    memory = job.state.group(group.name) if job.state else None
    floor = max(memory.job_min_attempt, memory.group_min_attempt) if memory else 0
    return blake2b(f"{job.owner.uid}/{floor}".encode(), digest_size=8).hexdigest()


def count_gpus(group: ReplicaGroup) -> int:
    """The number of GPUs that each member of a group asks for."""
    containers = nested_mapping(group.template, "spec").get("containers") or ()
    limits = [nested_mapping(container, "resources", "limits") for container in containers]
    asked = [str(number) for each in limits for name, number in each.items() if name.endswith("/gpu")]
    return sum(int(number) for number in asked if number.isdecimal())


def nested_mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """What a template holds at a path; empty if that is no mapping: a server without a schema keeps anything."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@lru_cache(maxsize=256)
def _cached_hosts(pod_format: str, service_format: str, job_key: JobKey, group: str, size: int) -> tuple[str, ...]:
    """Remembered, as every member is told of every other: that is the square of their number."""
    naming = Naming(pod=pod_format, service=service_format)
    return tuple(format_service_name(naming, format_pod_name(naming, job_key, group, index)) for index in range(size))


def _find_role(group: ReplicaGroup, roles: tuple[Role, ...]) -> Role:
    name = group.name.lower()
    return next((role for role in roles if name in (role.name, *role.aliases)), roles[-1])
