"""A replica of a DLJob as plugins see it: its own identity and the addresses of all replicas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pliant.errors import InvalidSpec
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import replica_host, replica_pod_name


@dataclass(frozen=True, slots=True, kw_only=True)
class DLReplica:
    """A replica of a job. Host names are those of services, which do not change when a pod is replaced."""

    job: Job
    type: str
    """The replica type in lower case, as in `replica_types` of the kind."""
    index: int
    """The index among the replicas of the same type, from 0."""
    attempt: int = 0
    """The number of restarts of the replica type."""
    default_port_name: str = ""

    @property
    def name(self) -> str:
        """The name of the pod."""
        return replica_pod_name(self.job, self.type, self.index)

    @property
    def host(self) -> str:
        """The host name of the replica within its namespace."""
        return self.host_of(self.type, self.index)

    @property
    def port(self) -> int:
        """The port of the replica."""
        return self.port_of(self.type)

    @property
    def rank(self) -> int:
        """The index among all replicas, in the order of the types of the kind."""
        preceding = 0
        for group in self.job.groups:
            if group.name == self.type:
                break
            preceding += group.size
        return preceding + self.index

    def count(self, *types: str) -> int:
        """Return the number of replicas of the given types, or of all types."""
        return sum(group.size for group in self._groups_of_types(types))

    def host_of(self, type: str, index: int = 0) -> str:  # noqa: A002 - part of the plugin API
        """Return the host name of a replica; raise InvalidSpec if the job has no replica of the type."""
        return replica_host(self.job, self._require_group(type).name, index)

    def port_of(self, type: str) -> int:  # noqa: A002
        """Return the port of the replicas of a type, with the number that their template sets."""
        ports = self._require_group(type).ports
        named = [port.number for port in ports if port.name == self.default_port_name]
        return (named or [port.number for port in ports] or [0])[0]

    def hosts(self, *types: str) -> list[str]:
        """Return the host names of the replicas of the given types, or of all types."""
        return [
            replica_host(self.job, group.name, index)
            for group in self._groups_of_types(types)
            for index in group.indexes
        ]

    def endpoints(self, *types: str) -> list[str]:
        """Return `host:port` of the replicas of the given types, or of all types."""
        groups = self._groups_of_types(types)
        return [f"{host}:{self.port_of(group.name)}" for group in groups for host in self.hosts(group.name)]

    def _groups_of_types(self, types: tuple[str, ...]) -> Iterator[ReplicaGroup]:
        return (group for group in self.job.groups if not types or group.name in types)

    def _require_group(self, replica_type: str) -> ReplicaGroup:
        group = self.job.group(replica_type)
        if group is None or not group.size:
            raise InvalidSpec("spec", f"needs a replica of type {replica_type}: other replicas require its address")
        return group
