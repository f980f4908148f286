"""The URL and token for progress reports, set in every job whatever its framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope
from pliant.model.labels import normalize_group_name

REPORT_URL_VARIABLE, REPORT_TOKEN_VARIABLE = "PLIANT_REPORT_URL", "PLIANT_REPORT_TOKEN"
REPORT_PATH_PREFIX = "/report/"


@dataclass(frozen=True, slots=True)
class ProgressReporting(Framework):
    """Sets PLIANT_REPORT_URL and a token that is valid only for the job."""

    base_url: str
    """The address of the operator: `http://pliant-operator.pliant-system.svc:8082`."""
    secret: bytes
    """The secret that all operator replicas of a cluster share."""

    @property
    def name(self) -> str:
        return "reporting"

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {REPORT_TOKEN_VARIABLE: derive_job_key(self.secret, KeyPurpose.REPORTS, key_scope(job))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        replica = f"{normalize_group_name(rank.group.name)}-{rank.index}"
        return {REPORT_URL_VARIABLE: f"{self.base_url.rstrip('/')}{report_path(job)}{replica}"}


def report_path(job: Job) -> str:
    """Return the URL path of a job; it contains the UID, which distinguishes later jobs of the same name."""
    owner = job.owner
    return f"{REPORT_PATH_PREFIX}{owner.api_version}/{owner.plural}/{job.key.namespace}/{job.key.name}/{owner.uid}/"
