"""RingJob: workers that stand in a ring, each of which is told where the next one is."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.plugins import ContainerProperties, DLJob, DLReplica


class RingJob(DLJob):
    """A job whose workers stand in a ring."""

    job_type = "RingJob"
    group = "example.com"
    replica_types = ("worker",)
    container_properties = ContainerProperties(
        ports={"ring": 7000}, volumes={"/dev/shm": {"emptyDir": {"medium": "Memory"}}}
    )

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """Who one is, how many there are, and where the next one listens."""
        size = replica.count("worker")
        following = (replica.index + 1) % size
        return {
            "RING_RANK": str(replica.index),
            "RING_SIZE": str(size),
            "RING_PORT": str(replica.port),
            "RING_NEXT": f"{replica.host_of('worker', following)}:{replica.port_of('worker')}",
        }
