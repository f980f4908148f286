"""The keys of the master's HTTP API, set in the pods of jobs that run Pliant's own master."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pliant.model.framework import Framework
from pliant.model.job import Job
from pliant.model.job_keys import KeyPurpose, derive_job_key, key_scope

MASTER_KEY_VARIABLE, MEMBERSHIP_KEY_VARIABLE = "PLIANT_MASTER_KEY", "PLIANT_MEMBERSHIP_KEY"
KEY_VARIABLES = {KeyPurpose.MASTER: MASTER_KEY_VARIABLE, KeyPurpose.MEMBERSHIP: MEMBERSHIP_KEY_VARIABLE}


@dataclass(frozen=True, slots=True)
class MasterKeys(Framework):
    """Sets the keys that members send to the master of their job; the master gets the same ones to compare them."""

    secret: bytes

    @property
    def name(self) -> str:
        return "master-keys"

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        if job.master is None or not job.master.checks_keys:
            return {}
        scope = key_scope(job)
        return {variable: derive_job_key(self.secret, purpose, scope) for purpose, variable in KEY_VARIABLES.items()}
