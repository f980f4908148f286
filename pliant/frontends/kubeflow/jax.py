"""JAXJob: equals that find each other at the first of them."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import COLUMNS, GROUP, VERSION, Dialect, Ends, KubeflowJob, worker_scale
from pliant.frontends.kubeflow.types import JobSpec, JobStatus, ReplicaSpec
from pliant.model.job import EndPolicy, Port

WORKER = "Worker"


class JAXJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    jax_replica_specs: Annotated[dict[str, ReplicaSpec], told("The groups: Worker.")] = field(default_factory=dict)


class JAXJob(KubeflowJob):
    """The front end of JAXJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="JAXJob",
            plural="jaxjobs",
            description="A training job written with JAX.",
            spec=JAXJobSpec,
            status=JobStatus,
            columns=COLUMNS,
            scale=worker_scale("jaxReplicaSpecs"),
        ),
        framework="jax",
        replica_specs="jaxReplicaSpecs",
        roles=(WORKER,),
        container="jax",
        port=Port("jaxjob-port", 6666),
    )

    def ends(self, spec: JAXJobSpec, role: str, roles: tuple[str, ...]) -> Ends:
        """All workers' ends are the job's."""
        return Ends(EndPolicy.ALL)
