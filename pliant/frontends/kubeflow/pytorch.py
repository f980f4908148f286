"""PyTorchJob: a fixed world led by a master, or an elastic one of workers under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct, field

from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import (
    COLUMNS,
    GROUP,
    VERSION,
    Bounds,
    Dialect,
    Ends,
    KubeflowJob,
    worker_scale,
)
from pliant.frontends.kubeflow.types import Count, JobSpec, JobStatus, ReplicaSpec, RestartPolicy
from pliant.model.job import EndPolicy, Port

MASTER, WORKER = "Master", "Worker"


class RendezvousSetting(Struct, frozen=True, kw_only=True):
    """One setting of the rendezvous backend."""

    key: Annotated[str, told("Its name.")]
    value: Annotated[str, told("Its value.")]


class ElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How workers may come and go; torchrun is told."""

    min_replicas: Annotated[Count | None, told("The fewest workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, told("The most workers. Default: their replicas.")] = None
    rdzv_backend: Annotated[str, told("How workers meet: c10d (the default), etcd, etcd-v2.")] = ""
    rdzv_port: Annotated[Count | None, told("Where they meet. Default: the port named pytorchjob-port.")] = None
    rdzv_host: Annotated[str, told("At whom they meet. Default: the first worker.")] = ""
    rdzv_id: Annotated[str, told("Which meeting. Default: one of its own for every attempt.")] = ""
    rdzv_conf: Annotated[list[RendezvousSetting], told("More settings of the backend.", nullable=True)] = []
    standalone: Annotated[bool, told("Whether each worker trains alone.")] = False
    n_proc_per_node: Annotated[Count | None, told("Processes of each worker; better: spec.nprocPerNode.")] = None
    max_restarts: Annotated[Count | None, told("How often torchrun restarts the processes of a worker.")] = None
    metrics: Annotated[list[dict[str, Any]], told("For an autoscaler; not read.", nullable=True)] = []


class PyTorchJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    elastic_policy: Annotated[ElasticPolicy | None, told("Whether and how workers may come and go.")] = None
    nproc_per_node: Annotated[str, told("Processes of each member: auto (the default), cpu, gpu or a number.")] = (
        ""
    )
    pytorch_replica_specs: Annotated[dict[str, ReplicaSpec], told("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class PyTorchJob(KubeflowJob):
    """The front end of PyTorchJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="PyTorchJob",
            plural="pytorchjobs",
            description="A training job written with PyTorch.",
            spec=PyTorchJobSpec,
            status=JobStatus,
            columns=COLUMNS,
            scale=worker_scale("pytorchReplicaSpecs"),
        ),
        framework="pytorch",
        replica_specs="pytorchReplicaSpecs",
        roles=(MASTER, WORKER),
        container="pytorch",
        port=Port("pytorchjob-port", 23456),
        restart=RestartPolicy.ON_FAILURE,
    )

    def ends(self, spec: PyTorchJobSpec, role: str, roles: tuple[str, ...]) -> Ends:
        """The master's end is the job's; without one, all workers', and of elastic ones any worker's."""
        if MASTER in roles:
            return Ends(EndPolicy.RANK0) if role == MASTER else Ends()
        return Ends(EndPolicy.ANY if spec.elastic_policy else EndPolicy.ALL)

    def options(self, spec: PyTorchJobSpec) -> Mapping[str, Any]:
        """What torchrun is told."""
        elastic = spec.elastic_policy or ElasticPolicy()
        return {
            "nproc_per_node": spec.nproc_per_node or elastic.n_proc_per_node,
            "rdzv_backend": elastic.rdzv_backend,
            "rdzv_host": elastic.rdzv_host,
            "rdzv_port": elastic.rdzv_port,
            "rdzv_id": elastic.rdzv_id,
            "rdzv_conf": {each.key: each.value for each in elastic.rdzv_conf},
            "max_restarts": elastic.max_restarts,
            "standalone": elastic.standalone,
        }

    def bounds(self, spec: PyTorchJobSpec, role: str) -> Bounds | None:
        """Workers of an elastic job may come and go."""
        elastic = spec.elastic_policy
        return Bounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
