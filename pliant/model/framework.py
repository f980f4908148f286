"""The interface of framework plugins: the environment, files and roles of a training framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pliant.model.departures import PublishedMember
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup
from pliant.model.state import GroupMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One replica slot of a job: its group, its index and the current attempt."""

    group: ReplicaGroup
    index: int
    attempt: int
    member: GroupMember | None = None
    """The membership entry in a master-managed group, where the index is the member's ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A replica type of a framework: a worker, a parameter server."""

    name: str
    """In lower case, as in pod names."""
    aliases: tuple[str, ...] = ()
    """Other group names that select this role."""
    complete_policy: EndPolicy = EndPolicy.ALL
    """The default complete policy of the group; NONE for servers, which never exit by themselves."""
    may_resize: bool = False
    """Whether replicas may join and leave while the others train."""


@runtime_checkable
class Framework(Protocol):
    """The contract of one training framework; every method but `name` has a default.

    The environment and files that all replicas share are computed once per decision. Only these may be long.
    """

    @property
    def name(self) -> str:
        """The name by which users select the framework, in lower case."""

    @property
    def aliases(self) -> tuple[str, ...]:
        return ()

    @property
    def roles(self) -> tuple[Role, ...]:
        """The replica types in rank order: the first replica of the first role is rank 0."""
        return ()

    @property
    def port(self) -> Port | None:
        """The default port, used if the pod template declares none."""
        return None

    @property
    def files_dir(self) -> str:
        """The directory where the files are mounted; required only if `files` returns some."""
        return ""

    def control_group(self, job: Job) -> ReplicaGroup | None:
        """Return a group that serves the replicas of the job, such as a rendezvous store; None if it needs none."""
        return None

    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        """Return files that follow the membership while the job runs, by name; empty if it needs none."""
        return {}

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Return the variables that are the same in every container of the job."""
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Return the variables specific to this replica and container."""
        return {}

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the contents of the files to mount in every replica, by name; all are executable."""
        return {}
