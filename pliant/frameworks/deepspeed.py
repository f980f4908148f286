"""DeepSpeed: all that torchrun needs, and a list of hosts for its own launcher."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.casting import Cast, devices
from pliant.frameworks.pytorch import PyTorch
from pliant.model.job import Group, Job


class DeepSpeed(PyTorch):
    """The contract of PyTorch, and /job/hostfile.

    Option `nproc_per_node` is the number of slots of each host; by default its GPUs, at least one.
    """

    name = "deepspeed"
    folder = "/job"

    def files(self, job: Job) -> Mapping[str, str]:
        """The hosts in the order of their ranks, as they were when the member that reads them started."""
        cast = Cast(job, self)
        lines = [f"{host} slots={_slots(job, group)}\n" for group in cast.groups() for host in cast.names(group)]
        return {"hostfile": "".join(lines)} if lines else {}


def _slots(job: Job, group: Group) -> int:
    told = str(job.options.get("nproc_per_node"))
    return int(told) if told.isdigit() else max(devices(group), 1)
