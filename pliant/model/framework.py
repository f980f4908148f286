"""What a framework plugin must answer about a job and about one rank of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup
from pliant.model.state import GroupMember


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One place in a job: which group, which index, which attempt at it."""

    group: ReplicaGroup
    index: int
    attempt: int
    member: GroupMember | None = None
    """What is known of it beyond that, in groups that a master looks after: there the index is its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One kind of member that a framework knows: a worker, a parameter server."""

    name: str
    """In lower case, as in the names of pods."""
    aliases: tuple[str, ...] = ()
    """Other names that people give to such a group."""
    complete_policy: EndPolicy = EndPolicy.ALL
    """Whose success is the group's, when nobody says otherwise; None for those who serve others and never end."""
    may_resize: bool = False
    """Whether members may come and go while others work."""


@runtime_checkable
class Framework(Protocol):
    """Knows the contract of one training framework; what it leaves out, it does not need.

    What is the same for all members is asked for once, however many there are; only that may be long.
    """

    @property
    def name(self) -> str:
        """The word users write to choose it, in lower case."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other words for it, in lower case."""
        return ()

    @property
    def roles(self) -> tuple[Role, ...]:
        """The kinds of members, in the order of their ranks: the first member of the first one is rank 0."""
        return ()

    @property
    def port(self) -> Port | None:
        """Where members listen whose template names no port."""
        return None

    @property
    def files_dir(self) -> str:
        """Where members find the files; needed only if there are some."""
        return ""

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """The variables that every container of the job gets alike, beside those in its template."""
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables that tell a container of this rank from others."""
        return {}

    def files(self, job: Job) -> Mapping[str, str]:
        """The contents of files that every member finds in the folder, by name; all can be executed."""
        return {}
