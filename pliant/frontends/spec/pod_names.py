"""Names that Kubernetes will accept for the pods and services of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pliant.errors import InvalidSpec
from pliant.model.job import JobKey, Naming
from pliant.model.labels import format_pod_name, format_service_name

MAX_SERVICE_NAME_CHARS = 63
_JOB_NAME_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GROUP_NAME_PATTERN = re.compile(r"[A-Za-z0-9]([-/A-Za-z0-9]*[A-Za-z0-9])?")


def check_pod_names(job_key: JobKey, max_sizes: Mapping[str, int], path: str, naming: Naming | None = None) -> None:
    """Raise InvalidSpec unless every member of every group gets a service name of its own.

    `largest` holds the largest size each group may reach; `path` is where the groups are written.
    """
    naming = naming or Naming()
    if not _JOB_NAME_PATTERN.fullmatch(job_key.name):
        problem = "must start with a letter and hold only lower-case letters, digits and `-`"
        raise InvalidSpec("metadata.name", f'"{job_key.name}" {problem}: its members are services named after it')
    taken: dict[str, str] = {}
    for group, size in max_sizes.items():
        if not _GROUP_NAME_PATTERN.fullmatch(group):
            raise InvalidSpec(f"{path}.{group}", "the name of a group may hold only letters, digits and `-`")
        twin = taken.setdefault(format_pod_name(naming, job_key, group, 0), group)
        if twin != group:
            raise InvalidSpec(f"{path}.{group}", f'its pods would have the same names as those of "{twin}"')
        last = format_service_name(naming, format_pod_name(naming, job_key, group, max(size - 1, 0)))
        if len(last) > MAX_SERVICE_NAME_CHARS:
            problem = (
                f'is too long: "{last}" has {len(last)} characters, a service name at most {MAX_SERVICE_NAME_CHARS}'
            )
            raise InvalidSpec("metadata.name", problem)
