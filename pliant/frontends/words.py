"""How kinds tell of their jobs: three functions beside each other, and one place that calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.base import Frontend
from pliant.model.actions import JobStatus
from pliant.model.job import Job

Status = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The status of one kind, in its own words."""

    rendered: Callable[[JobStatus, Status, Job], dict[str, Any]]
    rejected: Callable[[InvalidSpec, Status, datetime], dict[str, Any]]
    is_rejected: Callable[[Status], bool]


class Spoken(Frontend):
    """The base of front ends whose words are functions of their own."""

    words: Words

    def status(self, status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The whole new raw status; history is carried over from the previous one."""
        return self.words.rendered(status, previous, job)

    def rejection(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The raw status that tells a user what to fix; everything remembered stays."""
        return self.words.rejected(problem, previous, now)

    def is_rejected(self, previous: Mapping[str, Any]) -> bool:
        """Whether a status still tells of a problem, so that it must be written once the problem is gone."""
        return self.words.is_rejected(previous)
