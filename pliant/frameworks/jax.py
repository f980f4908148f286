"""JAX: processes that meet at a coordinator, which the first of them runs."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.role_assignment import RoleAssignment
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Port


class Jax(Framework):
    """What `jax.distributed.initialize()` takes, under the names that JAX reads and those that scripts read."""

    name = "jax"
    port = Port("jaxjob-port", 6666)
    roles = (Role(name="master", aliases=("chief", "coordinator", "launcher")), Role(name="worker"))

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """Where the coordinator is, and how many processes there are."""
        cast = RoleAssignment(job, self)
        first = cast.rank0_group()
        if first is None:
            return {}
        host, port, number = cast.host(first), str(cast.group_port(first)), str(cast.count_replicas())
        return {
            "COORDINATOR_ADDRESS": host,
            "COORDINATOR_PORT": port,
            "NUM_PROCESSES": number,
            "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
            "JAX_NUM_PROCESSES": number,
            "PYTHONUNBUFFERED": "1",
        }

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Which process one is."""
        number = str(RoleAssignment(job, self).global_rank(rank))
        return {"PROCESS_ID": number, "JAX_PROCESS_ID": number}
