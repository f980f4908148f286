"""What a framework plugin must answer about one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pliant.model.job import Group, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One place in a job: which group, which index, which attempt at it."""

    group: Group
    index: int
    attempt: int


class Framework(Protocol):
    """Knows the environment contract of one training framework.

    What is the same for all members is asked for once, however many there are; only that may be long.
    """

    @property
    def name(self) -> str:
        """The word users write to choose it."""

    def shared(self, job: Job) -> Mapping[str, str]:
        """The variables that every container of the job gets alike, beside those in its template."""

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables that tell a container of this rank from others."""
