"""MXNet and BytePS: a scheduler, servers and workers, told of each other by DMLC_*."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pliant.frameworks.role_assignment import AddressTable, RoleAssignment, nested_mapping
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup

SCHEDULER_ROLE, SERVER_ROLE, WORKER_ROLE = "scheduler", "server", "worker"
TUNER_ROLES = ("tunertracker", "tunerserver", "tuner")
MAX_MX_CONFIG_BYTES = 120 * 1024
"""Bytes of MX_CONFIG, which is left out if it is longer: Linux starts no program with a variable of 128 KiB."""
TUNER_KEY_ANNOTATION = "tuner-server-key"
"""The annotation of a template that tells a tuner which server is meant."""


class MXNet(Framework):
    """What ps-lite reads, and MX_CONFIG for scripts that want to see the whole cluster."""

    name = "mxnet"
    aliases = ("mx", "byteps")
    port = Port("mxjob-port", 9091)
    roles = (
        Role(name=SCHEDULER_ROLE, complete_policy=EndPolicy.NONE),
        Role(name=SERVER_ROLE, aliases=("ps", "pserver"), complete_policy=EndPolicy.NONE),
        *(Role(name=name, complete_policy=EndPolicy.NONE) for name in TUNER_ROLES),
        Role(name=WORKER_ROLE),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Where the scheduler is, and how many there are."""
        cast = RoleAssignment(job, self)
        scheduler = cast.first_group(SCHEDULER_ROLE)
        if scheduler is None:
            return {}
        return {
            "DMLC_PS_ROOT_URI": cast.host(scheduler),
            "DMLC_PS_ROOT_PORT": str(cast.group_port(scheduler)),
            "DMLC_NUM_SERVER": str(cast.count_replicas(SERVER_ROLE)),
            "DMLC_NUM_WORKER": str(cast.count_replicas(WORKER_ROLE)),
            # The scheduler then listens on all its addresses, and need not be able to look up its own name.
            "DMLC_USE_KUBERNETES": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """One's part in it."""
        cast = RoleAssignment(job, self)
        role = cast.role_name(rank.group)
        number = cast.global_rank(rank, role)
        config = _mx_config(cast, role, number)
        found = {"MX_CONFIG": config} if len(config) <= MAX_MX_CONFIG_BYTES else {}
        if role not in TUNER_ROLES:
            found["DMLC_ROLE"] = role
        if role == WORKER_ROLE:
            found["DMLC_WORKER_ID"] = str(number)
        return found


def _mx_config(assignment: RoleAssignment, role: str, task_index: int) -> str:
    labels: dict[str, str] = {}
    for part, group in assignment.assignments:
        labels.setdefault(part.name, _tuner_server_key(group))
    rest = _to_json({"labels": labels, "task": {"type": role, "index": task_index}})
    return f'{{"cluster":{_encode_cluster(assignment.address_table())},{rest[1:]}'


@lru_cache(maxsize=64)
def _encode_cluster(address_table: AddressTable) -> str:
    """Remembered, as every member is told of every other: that is the square of their number."""
    cluster: dict[str, list[dict[str, str | int]]] = {}
    for role, names, port in address_table:
        cluster.setdefault(role, []).extend({"url": name, "port": port} for name in names)
    return _to_json(cluster)


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _tuner_server_key(group: ReplicaGroup) -> str:
    return str(nested_mapping(group.template, "metadata", "annotations").get(TUNER_KEY_ANNOTATION) or "")
