"""One replica of a job, as the author of a kind sees it: who it is, and where all the others are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pliant.errors import InvalidSpec
from pliant.model.job import Job, ReplicaGroup
from pliant.model.labels import replica_pod_name, replica_service_name


@dataclass(frozen=True, slots=True, kw_only=True)
class DLReplica:
    """A place in a job; host names are those of services, so that they stay when a pod is made anew."""

    job: Job
    type: str
    """In lower case, as in the kind's `replica_types`."""
    index: int
    """Its number among those of its type, from 0."""
    attempt: int = 0
    """How often its type has been restarted."""
    default_port_name: str = ""
    """The name of the port that is meant where nobody says which."""

    @property
    def name(self) -> str:
        """Its pod."""
        return replica_pod_name(self.job, self.type, self.index)

    @property
    def host(self) -> str:
        """The name that others reach it by, within its namespace."""
        return self.host_of(self.type, self.index)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.port_of(self.type)

    @property
    def rank(self) -> int:
        """Its number among all replicas, in the order of the kind's types."""
        before = 0
        for group in self.job.groups:
            if group.name == self.type:
                break
            before += group.size
        return before + self.index

    def count(self, *types: str) -> int:
        """How many replicas of these types there are; without types, how many in all."""
        return sum(group.size for group in self._groups_of_types(types))

    def host_of(self, type: str, index: int = 0) -> str:  # noqa: A002 - the word of those who write kinds
        """The host name of one replica; raises InvalidSpec if the job has none of that type."""
        return replica_service_name(self.job, self._require_group(type).name, index)

    def port_of(self, type: str) -> int:  # noqa: A002
        """Where replicas of a type listen: the kind's own port, unless their template gives it another number."""
        ports = self._require_group(type).ports
        named = [port.number for port in ports if port.name == self.default_port_name]
        return (named or [port.number for port in ports] or [0])[0]

    def hosts(self, *types: str) -> list[str]:
        """The host names of all replicas of these types, in order; without types, of all."""
        return [
            replica_service_name(self.job, group.name, index)
            for group in self._groups_of_types(types)
            for index in range(group.size)
        ]

    def endpoints(self, *types: str) -> list[str]:
        """The same as `host:port`."""
        return [
            f"{replica_service_name(self.job, group.name, index)}:{self.port_of(group.name)}"
            for group in self._groups_of_types(types)
            for index in range(group.size)
        ]

    def _groups_of_types(self, types: tuple[str, ...]) -> Iterator[ReplicaGroup]:
        return (group for group in self.job.groups if not types or group.name in types)

    def _require_group(self, replica_type: str) -> ReplicaGroup:
        group = self.job.group(replica_type)
        if group is None or not group.size:
            raise InvalidSpec("spec", f"needs a replica of type {replica_type}: the others must know where it is")
        return group
