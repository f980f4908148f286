"""Where members report how their training goes, whatever their framework."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from pliant.model.labels import normalize_group_name

REPORT_URL_VARIABLE, REPORT_TOKEN_VARIABLE = "PLIANT_REPORT_URL", "PLIANT_REPORT_TOKEN"
REPORT_PATH_PREFIX = "/report/"


@dataclass(frozen=True, slots=True)
class ProgressReporting(Framework):
    """Gives members an address and a token that opens it for their own job alone."""

    base_url: str
    """Where an operator is reached: `http://pliant-operator.pliant-system.svc:8082`."""
    secret: bytes
    """What all operators of a cluster know and nobody else."""

    @property
    def name(self) -> str:
        """Not for users: every job gets it."""
        return "reporting"

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """The token."""
        return {REPORT_TOKEN_VARIABLE: report_token(self.secret, report_path(job))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The address, which says who reports."""
        member = f"{normalize_group_name(rank.group.name)}-{rank.index}"
        return {REPORT_URL_VARIABLE: f"{self.base_url.rstrip('/')}{report_path(job)}{member}"}


def report_token(secret: bytes, path: str) -> str:
    """What proves that somebody belongs to the job of a path; it tells nothing of the secret."""
    return hmac.digest(secret, path.encode(), "sha256").hex()[:32]


def report_path(job: Job) -> str:
    """The job, its uid included: a namesake that comes later is another job."""
    owner = job.owner
    return f"{REPORT_PATH_PREFIX}{owner.api_version}/{owner.plural}/{job.key.namespace}/{job.key.name}/{owner.uid}/"
