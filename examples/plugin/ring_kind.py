"""RingJob: workers in a ring; each worker gets the address of the next one."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.plugins import ContainerProperties, DLJob, DLReplica


class RingJob(DLJob):
    """A job whose workers form a ring."""

    job_type = "RingJob"
    group = "example.com"
    replica_types = ("worker",)
    container_properties = ContainerProperties(
        ports={"ring": 7000}, volumes={"/dev/shm": {"emptyDir": {"medium": "Memory"}}}
    )

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """Return the rank, the number of workers, and the address of the next worker."""
        size = replica.count("worker")
        following = (replica.index + 1) % size
        return {
            "RING_RANK": str(replica.index),
            "RING_SIZE": str(size),
            "RING_PORT": str(replica.port),
            "RING_NEXT": f"{replica.host_of('worker', following)}:{replica.port_of('worker')}",
        }
