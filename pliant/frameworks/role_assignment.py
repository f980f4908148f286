"""The mapping from the groups of a job, which have arbitrary names, to the roles of a framework."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any

from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, JobKey, Naming, ReplicaGroup
from pliant.model.labels import (
    format_pod_name,
    format_service_name,
    job_service_name,
    normalize_group_name,
    replica_host,
)

AddressTable = tuple[tuple[str, tuple[str, ...], int], ...]
"""For each group the role, the host names and the port; hashable, so that it can be a cache key."""


@dataclass(frozen=True)
class RoleAssignment:
    job: Job
    framework: Framework

    @cached_property
    def assignments(self) -> tuple[tuple[Role, ReplicaGroup], ...]:
        """The groups with their roles; a group whose name matches no role has the last role, that of workers."""
        roles = self.framework.roles
        pairs = [(_find_role(group, roles), group) for group in self.job.training_groups]
        return tuple(sorted(pairs, key=lambda pair: roles.index(pair[0])))

    def role_name(self, group: ReplicaGroup) -> str:
        return next(role.name for role, each in self.assignments if each is group)

    def first_group(self, role: str) -> ReplicaGroup | None:
        return next(self.groups(role), None)

    def groups(self, *roles: str) -> Iterator[ReplicaGroup]:
        """Return the groups with these roles in rank order; all groups if no role is given."""
        return (group for role, group in self.assignments if not roles or role.name in roles)

    def count_replicas(self, *roles: str) -> int:
        return sum(group.size for group in self.groups(*roles))

    def global_rank(self, rank: Rank, *roles: str) -> int:
        """Return the rank of a replica among all replicas with these roles."""
        before = 0
        for group in self.groups(*roles):
            if group.name == rank.group.name:
                return before + position_of(rank)
            before += group.size
        return before + position_of(rank)

    def rank0_group(self, *roles: str) -> ReplicaGroup | None:
        return next((group for group in self.groups(*roles) if group.size), None)

    def group_port(self, group: ReplicaGroup) -> int:
        """Return the port of a group: the one named as the framework's port, the first one, or the default."""
        default = self.framework.port
        named = [port.number for port in group.ports if default and port.name == default.name]
        return (named or [port.number for port in group.ports] or [default.number if default else 0])[0]

    def host(self, group: ReplicaGroup, index: int = 0) -> str:
        return replica_host(self.job, group.name, index)

    def hosts(self, *roles: str) -> list[str]:
        """Return the host names of the replicas with these roles in rank order."""
        return [host for group in self.groups(*roles) for host in self.group_hosts(group)]

    def address_table(self, *roles: str) -> AddressTable:
        return tuple(
            (role.name, self.group_hosts(group), self.group_port(group))
            for role, group in self.assignments
            if not roles or role.name in roles
        )

    def group_hosts(self, group: ReplicaGroup) -> tuple[str, ...]:
        naming, name = self.job.naming, normalize_group_name(group.name)
        pod = naming.pod_overrides.get(name, naming.pod)
        names = _format_hosts(pod, naming.service, self.job.key, group.name, tuple(group.indexes))
        if not naming.job_service:
            return names
        return _in_job_service(names, naming.own_services.get(name, 0), job_service_name(self.job))


def position_of(rank: Rank) -> int:
    """Return the place of a replica in its group: its index, unless lower indexes are skipped."""
    return rank.index - sum(skipped < rank.index for skipped in rank.group.skipped_indexes)


def group_restart_id(job: Job, group: ReplicaGroup) -> str:
    """Return an ID that changes when the whole group restarts and is unique to the job."""
    return blake2b(f"{job.owner.uid}/{group.generation}".encode(), digest_size=8).hexdigest()


def gpus_per_replica(group: ReplicaGroup) -> int:
    containers = nested_mapping(group.template, "spec").get("containers") or ()
    limits = [nested_mapping(container, "resources", "limits") for container in containers]
    counts = [str(count) for each in limits for name, count in each.items() if name.endswith("/gpu")]
    return sum(int(count) for count in counts if count.isdecimal())


def nested_mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the mapping at a path of a template; empty if there is none, since templates may be unvalidated."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def to_compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


@lru_cache(maxsize=256)
def _format_hosts(
    pod_format: str, service_format: str, job_key: JobKey, group: str, indexes: tuple[int, ...]
) -> tuple[str, ...]:
    """Format the host names of a group; cached, since the environment of every replica lists all of them."""
    naming = Naming(pod=pod_format, service=service_format)
    return tuple(format_service_name(naming, format_pod_name(naming, job_key, group, index)) for index in indexes)


@lru_cache(maxsize=256)
def _in_job_service(names: tuple[str, ...], own_services: int, job_service: str) -> tuple[str, ...]:
    """Append the service of the job to the names of the replicas that have no service of their own."""
    return (*names[:own_services], *(f"{name}.{job_service}" for name in names[own_services:]))


def _find_role(group: ReplicaGroup, roles: tuple[Role, ...]) -> Role:
    name = group.name.lower()
    return next((role for role in roles if name in (role.name, *role.aliases)), roles[-1])
