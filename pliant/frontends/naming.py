"""Names that Kubernetes will accept for the pods and services of a job."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pliant.errors import InvalidSpec
from pliant.model.job import JobKey, Naming
from pliant.model.labels import pod_name, service_of

LONGEST = 63
_JOB = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_GROUP = re.compile(r"[A-Za-z0-9]([-/A-Za-z0-9]*[A-Za-z0-9])?")


def check_member_names(key: JobKey, largest: Mapping[str, int], path: str, naming: Naming | None = None) -> None:
    """Raise InvalidSpec unless every member of every group gets a service name of its own.

    `largest` holds the largest size each group may reach; `path` is where the groups are written.
    """
    naming = naming or Naming()
    if not _JOB.fullmatch(key.name):
        problem = "must start with a letter and hold only lower-case letters, digits and `-`"
        raise InvalidSpec("metadata.name", f'"{key.name}" {problem}: its members are services named after it')
    taken: dict[str, str] = {}
    for group, size in largest.items():
        if not _GROUP.fullmatch(group):
            raise InvalidSpec(f"{path}.{group}", "the name of a group may hold only letters, digits and `-`")
        twin = taken.setdefault(pod_name(naming, key, group, 0), group)
        if twin != group:
            raise InvalidSpec(f"{path}.{group}", f'its pods would have the same names as those of "{twin}"')
        last = service_of(naming, pod_name(naming, key, group, max(size - 1, 0)))
        if len(last) > LONGEST:
            problem = f'is too long: "{last}" has {len(last)} characters, a service name at most {LONGEST}'
            raise InvalidSpec("metadata.name", problem)
