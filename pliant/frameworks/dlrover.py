"""DLRover: where the job's master is, who one is among the members, and for TensorFlow where everybody is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache

from pliant.model.framework import Framework, Rank
from pliant.model.job import Job, Port, ReplicaGroup
from pliant.model.labels import rank_service_name, replica_service_name
from pliant.model.state import GroupMember

PS_TYPE, WORKER_TYPE, CHIEF_TYPE, EVALUATOR_TYPE = "ps", "worker", "chief", "evaluator"
ALLREDUCE_STRATEGY, PS_STRATEGY = "AllreduceStrategy", "ParameterServerStrategy"
MAX_CLUSTER_BYTES = 120 * 1024
"""Bytes of the list of all addresses: Linux starts no program with a variable of 128 KiB."""


class DLRover(Framework):
    """The contract of ElasticJob: variables for agents and programs that talk to the job's master.

    Options: `strategy`, `service_type` (how the master is talked to), `elastic_mode` (for the agent) and
    `lends_chief` (one worker is the chief).
    """

    name = "dlrover"
    port = Port("grpc", 3333)

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Who one is, and where the master; the master itself needs none of it."""
        if rank.group.is_master:
            return {}
        number = str(rank.index if rank.member is None else rank.member.rank)
        size = str(_count_workers(job))
        return {
            "ELASTIC_JOB_NAME": job.key.name,
            "JOB_UID": job.owner.uid,
            **_master_environment(job),
            "NODE_TYPE": rank.group.name,
            "NODE_ID": str(rank.index),
            "NODE_RANK": number,
            "NODE_NUM": size,
            "WORKER_TYPE": rank.group.name,
            "WORKER_ID": str(rank.index),
            "WORKER_RANK": number,
            "WORKER_NUM": size,
            "GRPC_ENABLE_FORK_SUPPORT": "false",
            "MONITOR_ENABLED": "true",
            **_elastic_mode_environment(job),
            **_strategy_environment(job, rank, number, size),
        }


def _strategy_environment(job: Job, rank: Rank, rank_number: str, world_size: str) -> dict[str, str]:
    strategy = job.framework_options.get("strategy")
    if strategy == ALLREDUCE_STRATEGY:
        first = replica_service_name(job, WORKER_TYPE, 0)
        port = next((port.number for port in rank.group.ports), 0)
        return {"WORLD_SIZE": world_size, "RANK": rank_number, "RDZV_ENDPOINT": f"{first}:{port}"}
    if strategy == PS_STRATEGY:
        task = _to_json({"type": rank.group.name, "index": int(rank_number)})
        return {"TF_CONFIG": f'{{"cluster":{_encode_cluster(_JobIdentity(job))},"task":{task}}}'}
    return {}


def _elastic_mode_environment(job: Job) -> dict[str, str]:
    mode = job.framework_options.get("elastic_mode")
    return {"DLROVER_TRAINING_ELASTIC_MODE": str(mode)} if mode else {}


def _master_environment(job: Job) -> dict[str, str]:
    for group in job.groups:
        if group.is_master and group.ports:
            address = f"{replica_service_name(job, group.name, 0)}:{group.ports[0].number}"
            kind = str(job.framework_options.get("service_type") or "grpc")
            return {"DLROVER_MASTER_ADDR": address, "DLROVER_MASTER_SERVICE_TYPE": kind}
    return {}


def _count_workers(job: Job) -> int:
    """How many train: a chief that nobody asked for is one of the workers."""
    types = (WORKER_TYPE, CHIEF_TYPE) if job.framework_options.get("lends_chief") else (WORKER_TYPE,)
    return sum(max(group.size, 0) for group in job.groups if group.name in types)


class _JobIdentity:
    """This very job, not one like it: to compare two takes as long as to write down what is asked of them."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __hash__(self) -> int:
        return id(self.job)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _JobIdentity) and other.job is self.job


@lru_cache(maxsize=8)
def _encode_cluster(job_identity: _JobIdentity) -> str:
    """Remembered, as every member is told of every other: that is the square of their number."""
    job = job_identity.job
    told = {group.name: list(_list_addresses(job, group)) for group in job.groups if not group.is_master}
    written = _to_json({name: each for name, each in told.items() if each})
    if len(written) <= MAX_CLUSTER_BYTES:
        return written
    # Workers come and go, and do not talk to each other: of too many, those are told whom they talk to.
    return _to_json({name: each for name, each in told.items() if each and name != WORKER_TYPE})


def _list_addresses(job: Job, group: ReplicaGroup) -> Iterator[str]:
    """Where the members of a group are, in the order of their ranks."""
    if group.name == PS_TYPE and job.state is not None and job.state.ps_hosts:
        yield from job.state.ps_hosts
        return
    port = next((port.number for port in group.ports), 0)
    for rank in _list_ranks(job, group):
        own = rank.member.port if rank.member else None
        yield f"{rank_service_name(job, rank)}.{job.key.namespace}.svc:{own or port}"


def _list_ranks(job: Job, group: ReplicaGroup) -> list[Rank]:
    """Whoever holds each rank, or is to; of two the later one."""
    members = job.state.group(group.name).members if job.state else {}
    listed: dict[int, tuple[int, GroupMember]] = {}
    for index, member in sorted(members.items()):
        listed[member.rank] = (index, member)
    return [Rank(group=group, index=index, attempt=0, member=each) for _, (index, each) in sorted(listed.items())]


def _to_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
