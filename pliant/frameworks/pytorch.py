"""PyTorch: a fixed world by MASTER_ADDR and RANK, or one that changes, by torchrun's rendezvous."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment, generation_id
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import EndPolicy, Job, Port, ReplicaGroup

MASTER_ROLE, WORKER_ROLE = "master", "worker"


class PyTorch(Framework):
    """Both families of variables: those that scripts read, and those that torchrun takes for its options.

    Options: `nproc_per_node`, and for elastic groups `rdzv_backend`, `rdzv_host`, `rdzv_port`, `rdzv_id`,
    `rdzv_conf`, `max_restarts` and `standalone`.
    """

    name = "pytorch"
    port = Port("pytorchjob-port", 23456)
    roles = (
        Role(name=MASTER_ROLE, aliases=("chief", "launcher"), complete_policy=EndPolicy.RANK0),
        Role(name=WORKER_ROLE, may_resize=True),
    )

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Where rank 0 is, and how many there are."""
        cast = RoleAssignment(job, self)
        first = cast.rank0_group()
        if first is None:
            return {}
        common = {
            "PYTHONUNBUFFERED": "1",
            "PET_NPROC_PER_NODE": str(job.framework_options.get("nproc_per_node") or "auto"),
        }
        elastic = next((group for group in cast.groups(WORKER_ROLE) if group.is_elastic), None)
        return {**common, **(_elastic_environment(cast, elastic) if elastic else _static_environment(cast, first))}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which rank one is; in a world that changes ranks are given out at each rendezvous."""
        cast = RoleAssignment(job, self)
        if any(group.is_elastic for group in cast.groups(WORKER_ROLE)):
            return {}
        number = str(cast.global_rank(rank))
        return {"RANK": number, "PET_NODE_RANK": number}


def _static_environment(assignment: RoleAssignment, rank0_group: ReplicaGroup) -> dict[str, str]:
    host, port, nodes = (
        assignment.host(rank0_group),
        str(assignment.group_port(rank0_group)),
        assignment.count_replicas(),
    )
    processes = str(assignment.job.framework_options.get("nproc_per_node"))
    each = int(processes) if processes.isdigit() else 1
    return {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "WORLD_SIZE": str(nodes * each),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
        "PET_NNODES": str(nodes),
    }


def _elastic_environment(assignment: RoleAssignment, workers: ReplicaGroup) -> dict[str, str]:
    """What torchrun needs to meet its peers; numbers that would go stale are left out."""
    told = assignment.job.framework_options
    fixed = assignment.count_replicas() - workers.size
    least, most = max(workers.min_size, 1) + fixed, (workers.max_size or max(workers.size, workers.min_size)) + fixed
    host = told.get("rdzv_host") or assignment.host(workers)
    port = told.get("rdzv_port") or assignment.group_port(workers)
    found = {
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_BACKEND": str(told.get("rdzv_backend") or "c10d"),
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        # A second attempt under the old id would meet a rendezvous that is closed.
        "PET_RDZV_ID": str(told.get("rdzv_id") or generation_id(assignment.job, workers)),
    }
    if told.get("rdzv_conf"):
        found["PET_RDZV_CONF"] = ",".join(f"{key}={value}" for key, value in told["rdzv_conf"].items())
    if told.get("max_restarts") is not None:
        found["PET_MAX_RESTARTS"] = str(told["max_restarts"])
    if told.get("standalone"):
        found["PET_STANDALONE"] = "1"  # torchrun reads flags as numbers
    return found
