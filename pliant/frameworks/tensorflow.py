"""TensorFlow: the cluster and one's own task in it, as JSON in TF_CONFIG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from pliant.errors import InvalidSpec
from pliant.frameworks.role_assignment import AddressTable, RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

CHIEF_ROLE, MASTER_ROLE, PS_ROLE, EVALUATOR_ROLE, WORKER_ROLE = "chief", "master", "ps", "evaluator", "worker"
MAX_CLUSTER_BYTES = 120 * 1024
"""Bytes of the list of all addresses: Linux starts no program with a variable of 128 KiB."""

ClusterSpec = dict[str, list[str] | dict[str, str]]
"""Addresses by role, in the order of their numbers, or each with its number."""


class TensorFlow(Framework):
    """One variable for everything; a job of one member has none, and trains alone.

    Option `dynamic_workers`: members are told only of those they talk to, so that workers may come and go.
    """

    name = "tensorflow"
    aliases = ("tf",)
    port = Port("tfjob-port", 2222)
    roles = (
        Role(name=CHIEF_ROLE, complete_policy=EndPolicy.RANK0),
        Role(name=MASTER_ROLE, complete_policy=EndPolicy.RANK0),
        Role(name=PS_ROLE, aliases=("pserver", "server"), complete_policy=EndPolicy.NONE),
        Role(name=EVALUATOR_ROLE, complete_policy=EndPolicy.NONE),
        Role(name=WORKER_ROLE, may_resize=True),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Nothing: TF_CONFIG is another for every member; raises InvalidSpec if nobody could bear it."""
        cast = RoleAssignment(job, self)
        if not _has_dynamic_workers(job) and (size := len(_encode_full_cluster(cast))) > MAX_CLUSTER_BYTES:
            used = f"the addresses of {cast.count_replicas()} members fill {size:,} bytes of TF_CONFIG"
            problem = f"{used}, at most {MAX_CLUSTER_BYTES:,} fit"
            raise InvalidSpec("spec", f"{problem}: use fewer members or a shorter name")
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Where the others are, and which task is one's own."""
        cast = RoleAssignment(job, self)
        role = cast.role_name(rank.group)
        number = cast.global_rank(rank, role)
        if _has_dynamic_workers(job):
            cluster = _to_json(_sparse_cluster(cast, role, number))
        elif cast.count_replicas() > 1:
            cluster = _encode_full_cluster(cast)
        else:
            return {}
        task = _to_json({"type": role, "index": number})
        return {"TF_CONFIG": f'{{"cluster":{cluster},"task":{task},"environment":"cloud"}}'}


def _has_dynamic_workers(job: Job) -> bool:
    return bool(job.framework_options.get("dynamic_workers"))


def _encode_full_cluster(assignment: RoleAssignment) -> str:
    """Everybody but evaluators, who watch the others and take no part."""
    return _encode_cluster(
        assignment.address_table(CHIEF_ROLE, MASTER_ROLE, PS_ROLE, WORKER_ROLE), _service_domain(assignment)
    )


@lru_cache(maxsize=64)
def _encode_cluster(address_table: AddressTable, domain: str) -> str:
    """Remembered, as every member is told of every other: that is the square of their number."""
    cluster: dict[str, list[str]] = {}
    for role, names, port in address_table:
        if names:
            cluster.setdefault(role, []).extend(f"{name}{domain}:{port}" for name in names)
    return _to_json(cluster)


def _sparse_cluster(assignment: RoleAssignment, role: str, task_index: int) -> ClusterSpec:
    """Those a member talks to: servers only to themselves, all others to the servers and to who leads."""
    own = (
        {str(task_index): _role_endpoints(assignment, role)[task_index]}
        if task_index < assignment.count_replicas(role)
        else {}
    )
    if role == PS_ROLE:
        return {PS_ROLE: own}
    lasting: ClusterSpec = {
        each: [*_role_endpoints(assignment, each)]
        for each in (CHIEF_ROLE, MASTER_ROLE, PS_ROLE)
        if assignment.count_replicas(each)
    }
    return {**lasting, WORKER_ROLE: own} if role == WORKER_ROLE else lasting


def _role_endpoints(assignment: RoleAssignment, role: str) -> list[str]:
    return assignment.endpoints(role, suffix=_service_domain(assignment))


def _service_domain(assignment: RoleAssignment) -> str:
    return f".{assignment.job.key.namespace}.svc"


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
