"""Keys that the pods of a job carry, one per purpose, derived from a secret that all operators of a cluster share."""

from __future__ import annotations

import hmac
from enum import StrEnum
from typing import NamedTuple

from pliant.model.job import Job

_KEY_FORMAT = "pliant-job-key-1"


class KeyPurpose(StrEnum):
    REPORTS = "reports"
    """Progress reports to the operator."""
    MASTER = "master"
    """Requests to the job's master that change its state: datasets, shards, heartbeats, rendezvous."""
    MEMBERSHIP = "membership"
    """Requests to the job's master that only read: members, parameter servers, the progress of datasets."""


class KeyScope(NamedTuple):
    """The job that a key is valid for. The UID distinguishes it from later jobs of the same name."""

    group: str
    plural: str
    namespace: str
    name: str
    uid: str


def key_scope(job: Job) -> KeyScope:
    group = job.owner.api_version.rpartition("/")[0]
    return KeyScope(group, job.owner.plural, job.key.namespace, job.key.name, job.owner.uid)


def derive_job_key(secret: bytes, purpose: KeyPurpose, scope: KeyScope) -> str:
    """Return the key of a job for one purpose. It reveals neither the secret nor the key for another purpose or job."""
    # No name in Kubernetes contains a NUL, so that two scopes never have the same text.
    text = "\0".join((_KEY_FORMAT, purpose, *scope))
    return hmac.digest(secret, text.encode(), "sha256").hex()


def is_same_key(presented: str, expected: str) -> bool:
    """Compare two keys in a time that does not depend on where they differ."""
    return hmac.compare_digest(presented.encode(errors="replace"), expected.encode())


def bearer_key(authorization: str) -> str:
    """Return the key of an `Authorization` header; empty if it is not a bearer token."""
    scheme, _, key = authorization.partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
