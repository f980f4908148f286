"""DeepSpeed: all that torchrun needs, and a list of hosts for its own launcher."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.pytorch import PyTorch
from pliant.frameworks.role_assignment import RoleAssignment, count_gpus
from pliant.model.job import Job, ReplicaGroup


class DeepSpeed(PyTorch):
    """The contract of PyTorch, and /job/hostfile.

    Option `nproc_per_node` is the number of slots of each host; by default its GPUs, at least one.
    """

    name = "deepspeed"
    files_dir = "/job"

    def files(self, job: Job) -> Mapping[str, str]:
        """The hosts in the order of their ranks, as they were when the member that reads them started."""
        cast = RoleAssignment(job, self)
        lines = [
            f"{host} slots={_slots_per_host(job, group)}\n"
            for group in cast.groups()
            for host in cast.group_hosts(group)
        ]
        return {"hostfile": "".join(lines)} if lines else {}


def _slots_per_host(job: Job, group: ReplicaGroup) -> int:
    told = str(job.framework_options.get("nproc_per_node"))
    return int(told) if told.isdigit() else max(count_gpus(group), 1)
