"""The path of `PLIANT_REPORT_URL`, which identifies a replica of a job."""

from __future__ import annotations

import re
from typing import NamedTuple

from pliant.errors import PliantError
from pliant.frameworks.progress_reporting import REPORT_PATH_PREFIX
from pliant.kube.resources import Resource
from pliant.model.job_keys import KeyPurpose, KeyScope, bearer_key, derive_job_key, is_same_key

MAX_INDEX_DIGITS = 9
_PATH_SEGMENT_PATTERN = re.compile(r"[A-Za-z0-9][-.A-Za-z0-9]{0,252}")


class UnknownReplica(PliantError):
    """There is no such job, or the job has no such replica; the message is sent to the client."""


class MembershipUnavailable(PliantError):
    """The request cannot be answered now; the message is sent to the client, which repeats the request."""


class JobReportPath(NamedTuple):
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    uid: str

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural, "")

    @property
    def key_scope(self) -> KeyScope:
        return KeyScope(self.group, self.plural, self.namespace, self.name, self.uid)

    def is_authorized(self, secret: bytes, authorization: str) -> bool:
        """Return whether an `Authorization` header has the token of the job."""
        expected = derive_job_key(secret, KeyPurpose.REPORTS, self.key_scope)
        return is_same_key(bearer_key(authorization), expected)


class ReplicaPath(NamedTuple):
    job: JobReportPath
    replica: str
    """`worker-0`"""


def parse_job_path(path: str) -> JobReportPath | None:
    """Return the job of a path without its replica; None if it is not the path of a job."""
    parts = path.removeprefix(REPORT_PATH_PREFIX).split("/")
    if not path.startswith(REPORT_PATH_PREFIX) or len(parts) != len(JobReportPath._fields):
        return None
    return JobReportPath(*parts) if all(map(_PATH_SEGMENT_PATTERN.fullmatch, parts)) else None


def parse_replica_path(path: str) -> ReplicaPath | None:
    """Return the job and the replica of a path; None if it is not the path of a replica."""
    job_path, _, replica = path.rpartition("/")
    job = parse_job_path(job_path)
    return ReplicaPath(job, replica) if job is not None and _PATH_SEGMENT_PATTERN.fullmatch(replica) else None


def split_replica_name(replica: str) -> tuple[str, int] | None:
    """Return the group, as it is in names, and the index of a replica; None if it is not the name of one."""
    group, _, index = replica.rpartition("-")
    is_index = index.isascii() and index.isdigit() and len(index) <= MAX_INDEX_DIGITS
    return (group, int(index)) if is_index and str(int(index)) == index else None
