"""Where members report how their training goes, whatever their framework."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from pliant.model.labels import member_group

URL, TOKEN = "PLIANT_REPORT_URL", "PLIANT_REPORT_TOKEN"
PREFIX = "/report/"


@dataclass(frozen=True, slots=True)
class Reporting(Framework):
    """Gives members an address and a token that opens it for their own job alone."""

    base: str
    """Where an operator is reached: `http://pliant-operator.pliant-system.svc:8082`."""
    secret: bytes
    """What all operators of a cluster know and nobody else."""

    @property
    def name(self) -> str:
        """Not for users: every job gets it."""
        return "reporting"

    def shared(self, job: Job) -> Mapping[str, str]:
        """The token."""
        return {TOKEN: token(self.secret, path_of(job))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The address, which says who reports."""
        member = f"{member_group(rank.group.name)}-{rank.index}"
        return {URL: f"{self.base.rstrip('/')}{path_of(job)}{member}"}


def token(secret: bytes, path: str) -> str:
    """What proves that somebody belongs to the job of a path; it tells nothing of the secret."""
    return hmac.digest(secret, path.encode(), "sha256").hex()[:32]


def path_of(job: Job) -> str:
    """The job, its uid included: a namesake that comes later is another job."""
    owner = job.owner
    return f"{PREFIX}{owner.api_version}/{owner.plural}/{job.key.namespace}/{job.key.name}/{owner.uid}/"
