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
    """Knows the environment contract of one training framework."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables a container of this rank gets, beside those in its template."""
