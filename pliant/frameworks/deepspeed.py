"""DeepSpeed: the environment of torchrun, and a hostfile for the DeepSpeed launcher."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.pytorch import PyTorch
from pliant.frameworks.role_assignment import RoleAssignment, count_gpus
from pliant.model.job import Job, ReplicaGroup


class DeepSpeed(PyTorch):
    """The PyTorch environment and /job/hostfile.

    Option `nproc_per_node` is the number of slots per host; the default is the number of GPUs, at least 1.
    """

    name = "deepspeed"
    files_dir = "/job"

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the hostfile, in rank order; a replica keeps the hostfile of the time when it started."""
        assignment = RoleAssignment(job, self)
        lines = [
            f"{host} slots={_slots_per_host(job, group)}\n"
            for group in assignment.groups()
            for host in assignment.group_hosts(group)
        ]
        return {"hostfile": "".join(lines)} if lines else {}


def _slots_per_host(job: Job, group: ReplicaGroup) -> int:
    option = str(job.framework_options.get("nproc_per_node"))
    return int(option) if option.isdigit() else max(count_gpus(group), 1)
