"""The environment every job gets, whatever its framework: who am I, and where is everybody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from pliant.model.framework import Rank
from pliant.model.job import Job, JobKey, Port
from pliant.model.labels import member_address

_Shape = tuple[tuple[str, int, tuple[Port, ...]], ...]


class Generic:
    """The contract of AITrainingJob: TRAININGJOB_* for oneself, `<GROUP>_*` for every group."""

    @property
    def name(self) -> str:
        """The word users write to choose it."""
        return "generic"

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables a container of this rank gets, beside those in its template."""
        replica = rank.group.name.lower()
        shape = tuple((group.name, group.size, group.ports) for group in job.groups)
        return {
            "TRAININGJOB_NAME": job.key.name,
            "TRAININGJOB_NAMESPACE": job.key.namespace,
            "TRAININGJOB_REPLICA_NAME": replica,
            "TRAININGJOB_REPLICA_TYPE": replica,
            "TRAININGJOB_REPLICA_INDEX": str(rank.index),
            "TRAININGJOB_REPLICA_RESTARTCOUNT": str(rank.attempt),
            "TRAININGJOB_SERVICE": member_address(job.key, rank.group.name, rank.index),
            "TRAININGJOB_PORTS": _numbers(tuple(port for port in rank.group.ports if port.container == container)),
            **_directory(job.key, shape),
        }


def variable_prefix(group: str) -> str:
    """A group's name as variables begin with it: `WORKER` for `worker`, `PS_GPU` for `ps/gpu`."""
    name = re.sub(r"[^A-Z0-9_]", "_", group.upper())
    return f"_{name}" if name[:1].isdigit() else name


# The same for every rank of a job: with a thousand members it is a million names, made once.
@lru_cache(maxsize=64)
def _directory(key: JobKey, shape: _Shape) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for group, size, ports in shape:
        instances = [member_address(key, group, index) for index in range(size)]
        hosts = [f"{instance}:{port.number}" for instance in instances for port in ports]
        prefix = variable_prefix(group)
        found |= {
            f"{prefix}_INSTANCES": ",".join(instances),
            f"{prefix}_INSTANCES_NUM": str(len(instances)),
            f"{prefix}_PORTS": _numbers(ports),
            f"{prefix}_PORTS_NUM": str(len(ports)),
            f"{prefix}_HOSTS": ",".join(hosts),
            f"{prefix}_HOSTS_NUM": str(len(hosts)),
        }
    return found


def _numbers(ports: tuple[Port, ...]) -> str:
    return ",".join(str(port.number) for port in ports)
