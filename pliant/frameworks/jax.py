"""JAX: processes that connect to a coordinator in process 0."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Port


class Jax(Framework):
    """The arguments of `jax.distributed.initialize()`, in the variables that JAX and existing scripts read."""

    name = "jax"
    port = Port("jaxjob-port", 6666)
    roles = (Role(name="master", aliases=("chief", "coordinator", "launcher")), Role(name="worker"))

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        assignment = RoleAssignment(job, self)
        first = assignment.rank0_group()
        if first is None:
            return {}
        host, port = assignment.host(first), str(assignment.group_port(first))
        world_size = str(assignment.count_replicas())
        return {
            "COORDINATOR_ADDRESS": host,
            "COORDINATOR_PORT": port,
            "NUM_PROCESSES": world_size,
            "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
            "JAX_NUM_PROCESSES": world_size,
            "PYTHONUNBUFFERED": "1",
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        process_id = str(RoleAssignment(job, self).global_rank(rank))
        return {"PROCESS_ID": process_id, "JAX_PROCESS_ID": process_id}
