"""The environment of every job, whatever its framework: the identity of the replica and all addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pliant.model.framework import Framework, Rank
from pliant.model.job import Job, Port, ReplicaGroup
from pliant.model.labels import replica_dns_name


class Generic(Framework):
    """The environment of AITrainingJobs: TRAININGJOB_* for the replica, `<GROUP>_*` for every group."""

    name = "generic"

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        variables: dict[str, str] = {}
        for group in job.groups:
            variables |= _group_environment(job, group)
        return variables

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        replica = rank.group.name.lower()
        return {
            "TRAININGJOB_NAME": job.key.name,
            "TRAININGJOB_NAMESPACE": job.key.namespace,
            "TRAININGJOB_REPLICA_NAME": replica,
            "TRAININGJOB_REPLICA_TYPE": replica,
            "TRAININGJOB_REPLICA_INDEX": str(rank.index),
            "TRAININGJOB_REPLICA_RESTARTCOUNT": str(rank.attempt),
            "TRAININGJOB_SERVICE": replica_dns_name(job, rank.group.name, rank.index),
            "TRAININGJOB_PORTS": _join_port_numbers(port for port in rank.group.ports if port.container == container),
        }


def variable_prefix(group: str) -> str:
    """Return the prefix of the variables of a group: `WORKER` for `worker`, `PS_GPU` for `ps/gpu`."""
    name = re.sub(r"[^A-Z0-9_]", "_", group.upper())
    return f"_{name}" if name[:1].isdigit() else name


def _group_environment(job: Job, group: ReplicaGroup) -> dict[str, str]:
    instances = [replica_dns_name(job, group.name, index) for index in group.indexes]
    hosts = [f"{instance}:{port.number}" for instance in instances for port in group.ports]
    prefix = variable_prefix(group.name)
    return {
        f"{prefix}_INSTANCES": ",".join(instances),
        f"{prefix}_INSTANCES_NUM": str(len(instances)),
        f"{prefix}_PORTS": _join_port_numbers(group.ports),
        f"{prefix}_PORTS_NUM": str(len(group.ports)),
        f"{prefix}_HOSTS": ",".join(hosts),
        f"{prefix}_HOSTS_NUM": str(len(hosts)),
    }


def _join_port_numbers(ports: Iterable[Port]) -> str:
    return ",".join(str(port.number) for port in ports)
