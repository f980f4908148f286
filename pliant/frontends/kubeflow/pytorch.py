"""PyTorchJob: a fixed world led by a master, or an elastic one of workers under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct, field

from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import (
    API_GROUP,
    API_VERSION,
    PRINTER_COLUMNS,
    GroupEndPolicies,
    KubeflowJobFrontend,
    KubeflowKind,
    ReplicaBounds,
    worker_scale_paths,
)
from pliant.frontends.kubeflow.types import (
    Count,
    KubeflowJobSpec,
    KubeflowJobStatus,
    KubeflowReplicaSpec,
    KubeflowRestartPolicy,
)
from pliant.model.job import EndPolicy, Port

MASTER, WORKER = "Master", "Worker"


class RendezvousSetting(Struct, frozen=True, kw_only=True):
    """One setting of the rendezvous backend."""

    key: Annotated[str, field_doc("Its name.")]
    value: Annotated[str, field_doc("Its value.")]


class PyTorchElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How workers may come and go; torchrun is told."""

    min_replicas: Annotated[Count | None, field_doc("The fewest workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, field_doc("The most workers. Default: their replicas.")] = None
    rdzv_backend: Annotated[str, field_doc("How workers meet: c10d (the default), etcd, etcd-v2.")] = ""
    rdzv_port: Annotated[Count | None, field_doc("Where they meet. Default: the port named pytorchjob-port.")] = None
    rdzv_host: Annotated[str, field_doc("At whom they meet. Default: the first worker.")] = ""
    rdzv_id: Annotated[str, field_doc("Which meeting. Default: one of its own for every attempt.")] = ""
    rdzv_conf: Annotated[list[RendezvousSetting], field_doc("More settings of the backend.", nullable=True)] = []
    standalone: Annotated[bool, field_doc("Whether each worker trains alone.")] = False
    n_proc_per_node: Annotated[Count | None, field_doc("Processes of each worker; better: spec.nprocPerNode.")] = None
    max_restarts: Annotated[Count | None, field_doc("How often torchrun restarts the processes of a worker.")] = None
    metrics: Annotated[list[dict[str, Any]], field_doc("For an autoscaler; not read.", nullable=True)] = []


class PyTorchJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    elastic_policy: Annotated[PyTorchElasticPolicy | None, field_doc("Whether and how workers may come and go.")] = None
    nproc_per_node: Annotated[str, field_doc("Processes of each member: auto (the default), cpu, gpu or a number.")] = (
        ""
    )
    pytorch_replica_specs: Annotated[dict[str, KubeflowReplicaSpec], field_doc("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class PyTorchJobFrontend(KubeflowJobFrontend):
    """The front end of PyTorchJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="PyTorchJob",
            plural="pytorchjobs",
            description="A training job written with PyTorch.",
            spec_type=PyTorchJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
            scale_paths=worker_scale_paths("pytorchReplicaSpecs"),
        ),
        framework="pytorch",
        replica_specs_field="pytorchReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="pytorch",
        default_port=Port("pytorchjob-port", 23456),
        default_restart_policy=KubeflowRestartPolicy.ON_FAILURE,
    )

    def end_policies(self, spec: PyTorchJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The master's end is the job's; without one, all workers', and of elastic ones any worker's."""
        if MASTER in roles:
            return GroupEndPolicies(EndPolicy.RANK0) if role == MASTER else GroupEndPolicies()
        return GroupEndPolicies(EndPolicy.ANY if spec.elastic_policy else EndPolicy.ALL)

    def framework_options(self, spec: PyTorchJobSpec) -> Mapping[str, Any]:
        """What torchrun is told."""
        elastic = spec.elastic_policy or PyTorchElasticPolicy()
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

    def replica_bounds(self, spec: PyTorchJobSpec, role: str) -> ReplicaBounds | None:
        """Workers of an elastic job may come and go."""
        elastic = spec.elastic_policy
        return ReplicaBounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
