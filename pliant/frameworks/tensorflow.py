"""TensorFlow: the cluster and the task of the replica, as JSON in TF_CONFIG."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pliant.errors import InvalidSpec
from pliant.frameworks.role_assignment import AddressTable, RoleAssignment, to_compact_json
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port

CHIEF_ROLE, MASTER_ROLE, PS_ROLE, EVALUATOR_ROLE, WORKER_ROLE = "chief", "master", "ps", "evaluator", "worker"
MAX_ADDRESS_LIST_BYTES = 120 * 1024
"""The limit of the address list: execve on Linux rejects a variable of 128 KiB."""

ClusterSpec = dict[str, list[str] | dict[str, str]]
"""Addresses by role: a list in rank order, or a mapping from index to address."""


class TensorFlow(Framework):
    """TF_CONFIG; a job with a single replica has none.

    Option `dynamic_workers`: TF_CONFIG contains only the peers that a replica connects to, so that workers may join
    and leave.
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
        """Return nothing, since TF_CONFIG differs per replica; raise InvalidSpec if it would be too long."""
        assignment = RoleAssignment(job, self)
        size = 0 if job.framework_options.get("dynamic_workers") else len(_encode_full_cluster(assignment))
        if size > MAX_ADDRESS_LIST_BYTES:
            used = f"the addresses of {assignment.count_replicas()} replicas take {size:,} bytes of TF_CONFIG"
            problem = f"{used}, the limit is {MAX_ADDRESS_LIST_BYTES:,}"
            raise InvalidSpec("spec", f"{problem}: use fewer replicas or a shorter name")
        return {}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        assignment = RoleAssignment(job, self)
        role = assignment.role_name(rank.group)
        task_index = assignment.global_rank(rank, role)
        if job.framework_options.get("dynamic_workers"):
            cluster = to_compact_json(_sparse_cluster(assignment, role, task_index))
        elif assignment.count_replicas() > 1:
            cluster = _encode_full_cluster(assignment)
        else:
            return {}
        task = to_compact_json({"type": role, "index": task_index})
        return {"TF_CONFIG": f'{{"cluster":{cluster},"task":{task},"environment":"cloud"}}'}


def _encode_full_cluster(assignment: RoleAssignment) -> str:
    """Return all addresses except those of evaluators, which are not part of the cluster."""
    addresses = assignment.address_table(CHIEF_ROLE, MASTER_ROLE, PS_ROLE, WORKER_ROLE)
    return _encode_cluster(addresses, _service_domain(assignment))


@lru_cache(maxsize=64)
def _encode_cluster(address_table: AddressTable, domain: str) -> str:
    """Return all addresses as JSON; cached, since the TF_CONFIG of every replica contains them."""
    cluster: dict[str, list[str]] = {}
    for role, names, port in address_table:
        if names:
            cluster.setdefault(role, []).extend(f"{name}{domain}:{port}" for name in names)
    return to_compact_json(cluster)


def _sparse_cluster(assignment: RoleAssignment, role: str, task_index: int) -> ClusterSpec:
    """Return the peers of a replica: a server lists itself, others list the servers, the chief and themselves."""
    own = {}
    if task_index < assignment.count_replicas(role):
        own = {str(task_index): _role_endpoints(assignment, role)[task_index]}
    if role == PS_ROLE:
        return {PS_ROLE: own}
    permanent: ClusterSpec = {
        each: [*_role_endpoints(assignment, each)]
        for each in (CHIEF_ROLE, MASTER_ROLE, PS_ROLE)
        if assignment.count_replicas(each)
    }
    return {**permanent, WORKER_ROLE: own} if role == WORKER_ROLE else permanent


def _role_endpoints(assignment: RoleAssignment, role: str) -> list[str]:
    domain = _service_domain(assignment)
    return [f"{name}{domain}:{port}" for _, names, port in assignment.address_table(role) for name in names]


def _service_domain(assignment: RoleAssignment) -> str:
    return f".{assignment.job.key.namespace}.svc"
