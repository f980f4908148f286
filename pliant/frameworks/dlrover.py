"""DLRover: the address of the master, the identity of the replica, and TF_CONFIG for TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from pliant.frameworks.role_assignment import to_compact_json
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job, Port, ReplicaGroup
from pliant.model.labels import rank_host, replica_host, replica_service_name
from pliant.model.state import GroupMember

PS_TYPE, WORKER_TYPE, CHIEF_TYPE, EVALUATOR_TYPE = "ps", "worker", "chief", "evaluator"
ALLREDUCE_STRATEGY, PS_STRATEGY = "AllreduceStrategy", "ParameterServerStrategy"
MAX_ADDRESS_LIST_BYTES = 120 * 1024
"""The limit of the address list: execve on Linux rejects a variable of 128 KiB."""


class DLRover(Framework):
    """The environment of ElasticJobs, read by DLRover's agents and by programs that use the master.

    Options: `strategy`, `service_type` (the protocol of the master), `elastic_mode` (for the agent) and
    `has_implicit_chief` (one worker is the chief).
    """

    name = "dlrover"
    port = Port("grpc", 3333)

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        if rank.group.is_master:
            return {}
        rank_number = str(rank.index if rank.member is None else rank.member.rank)
        # An implicit chief is one of the workers.
        worker_types = (WORKER_TYPE, CHIEF_TYPE) if job.framework_options.get("has_implicit_chief") else (WORKER_TYPE,)
        world_size = str(sum(max(group.size, 0) for group in job.groups if group.name in worker_types))
        elastic_mode = job.framework_options.get("elastic_mode")
        return {
            "ELASTIC_JOB_NAME": job.key.name,
            "JOB_UID": job.owner.uid,
            **_master_environment(job),
            "NODE_TYPE": rank.group.name,
            "NODE_ID": str(rank.index),
            "NODE_RANK": rank_number,
            "NODE_NUM": world_size,
            "WORKER_TYPE": rank.group.name,
            "WORKER_ID": str(rank.index),
            "WORKER_RANK": rank_number,
            "WORKER_NUM": world_size,
            "GRPC_ENABLE_FORK_SUPPORT": "false",
            "MONITOR_ENABLED": "true",
            **({"DLROVER_TRAINING_ELASTIC_MODE": str(elastic_mode)} if elastic_mode else {}),
            **_strategy_environment(job, rank, rank_number, world_size),
        }


def _strategy_environment(job: Job, rank: Rank, rank_number: str, world_size: str) -> dict[str, str]:
    strategy = job.framework_options.get("strategy")
    if strategy == ALLREDUCE_STRATEGY:
        # Without a port: programs append one, and pass the value to PyTorch as MASTER_ADDR.
        first = replica_host(job, WORKER_TYPE, 0)
        return {"WORLD_SIZE": world_size, "RANK": rank_number, "RDZV_ENDPOINT": first}
    if strategy == PS_STRATEGY:
        task = to_compact_json({"type": rank.group.name, "index": int(rank_number)})
        return {"TF_CONFIG": f'{{"cluster":{_encode_cluster(_JobIdentity(job))},"task":{task}}}'}
    return {}


def _master_environment(job: Job) -> dict[str, str]:
    for group in job.groups:
        if group.is_master and group.ports:
            address = f"{replica_service_name(job, group.name, 0)}:{group.ports[0].number}"
            kind = str(job.framework_options.get("service_type") or "grpc")
            return {"DLROVER_MASTER_ADDR": address, "DLROVER_MASTER_SERVICE_TYPE": kind}
    return {}


class _JobIdentity:
    """A cache key that compares jobs by identity: comparing by value costs as much as encoding the addresses."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __hash__(self) -> int:
        return id(self.job)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _JobIdentity) and other.job is self.job


@lru_cache(maxsize=8)
def _encode_cluster(job_identity: _JobIdentity) -> str:
    """Return the addresses of all replicas as JSON; cached, since the TF_CONFIG of every replica contains them."""
    job = job_identity.job
    addresses = {group.name: list(_list_addresses(job, group)) for group in job.groups if not group.is_master}
    encoded = to_compact_json({name: each for name, each in addresses.items() if each})
    if len(encoded) <= MAX_ADDRESS_LIST_BYTES:
        return encoded
    # Too long: leave out the workers, which do not connect to each other.
    return to_compact_json({name: each for name, each in addresses.items() if each and name != WORKER_TYPE})


def _list_addresses(job: Job, group: ReplicaGroup) -> Iterator[str]:
    if group.name == PS_TYPE and job.server_addresses:
        yield from job.server_addresses
        return
    port = next((port.number for port in group.ports), 0)
    for rank in _list_ranks(job, group):
        member_port = rank.member.port if rank.member else None
        yield f"{rank_host(job, rank)}.{job.key.namespace}.svc:{member_port or port}"


def _list_ranks(job: Job, group: ReplicaGroup) -> list[Rank]:
    """Return the members of a group in rank order; if two share a rank, the one with the higher ID."""
    by_rank: dict[int, tuple[int, GroupMember]] = {}
    for index, member in sorted(group.members.items()):
        by_rank[member.rank] = (index, member)
    return [Rank(group=group, index=index, attempt=0, member=each) for _, (index, each) in sorted(by_rank.items())]
