"""MXNet and BytePS: a scheduler, servers and workers, configured by DMLC_* variables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pliant.frameworks.role_assignment import AddressTable, RoleAssignment, nested_mapping, to_compact_json
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

SCHEDULER_ROLE, SERVER_ROLE, WORKER_ROLE = "scheduler", "server", "worker"
TUNER_ROLES = ("tunertracker", "tunerserver", "tuner")
MAX_MX_CONFIG_BYTES = 120 * 1024
"""A longer MX_CONFIG is omitted: execve on Linux rejects a variable of 128 KiB."""
TUNER_KEY_ANNOTATION = "tuner-server-key"
"""The annotation of a pod template with the key of the tuner server."""


class MXNet(Framework):
    """The variables of ps-lite, and MX_CONFIG with the whole cluster."""

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
        assignment = RoleAssignment(job, self)
        scheduler = assignment.first_group(SCHEDULER_ROLE)
        if scheduler is None:
            return {}
        return {
            "DMLC_PS_ROOT_URI": assignment.host(scheduler),
            "DMLC_PS_ROOT_PORT": str(assignment.group_port(scheduler)),
            "DMLC_NUM_SERVER": str(assignment.count_replicas(SERVER_ROLE)),
            "DMLC_NUM_WORKER": str(assignment.count_replicas(WORKER_ROLE)),
            # The scheduler listens on all addresses and does not need to resolve its own name.
            "DMLC_USE_KUBERNETES": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        assignment = RoleAssignment(job, self)
        role = assignment.role_name(rank.group)
        task_index = assignment.global_rank(rank, role)
        config = _mx_config(assignment, role, task_index)
        variables = {"MX_CONFIG": config} if len(config) <= MAX_MX_CONFIG_BYTES else {}
        if role not in TUNER_ROLES:
            variables["DMLC_ROLE"] = role
        if role == WORKER_ROLE:
            variables["DMLC_WORKER_ID"] = str(task_index)
        return variables


def _mx_config(assignment: RoleAssignment, role: str, task_index: int) -> str:
    labels: dict[str, str] = {}
    for each, group in assignment.assignments:
        annotations = nested_mapping(group.template, "metadata", "annotations")
        labels.setdefault(each.name, str(annotations.get(TUNER_KEY_ANNOTATION) or ""))
    rest = to_compact_json({"labels": labels, "task": {"type": role, "index": task_index}})
    return f'{{"cluster":{_encode_cluster(assignment.address_table())},{rest[1:]}'


@lru_cache(maxsize=64)
def _encode_cluster(address_table: AddressTable) -> str:
    """Return all addresses as JSON; cached, since the MX_CONFIG of every replica contains them."""
    cluster: dict[str, list[dict[str, str | int]]] = {}
    for role, names, port in address_table:
        cluster.setdefault(role, []).extend({"url": name, "port": port} for name in names)
    return to_compact_json(cluster)
