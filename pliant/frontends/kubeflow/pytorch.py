"""PyTorchJob: a master and workers with a fixed world size, or elastic workers with torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Struct, field

from pliant.frontends.crd import field_doc
from pliant.frontends.fields import Count, ReplicaRestartPolicy
from pliant.frontends.kubeflow.job import (
    GroupEndPolicies,
    KubeflowJobFrontend,
    KubeflowKind,
    ReplicaBounds,
    define_kind,
)
from pliant.frontends.kubeflow.types import BOUNDS_RULES, AutoscalerMetrics, KubeflowJobSpec, KubeflowReplicaSpecs
from pliant.model.job import EndPolicy, Port

MASTER, WORKER = "Master", "Worker"


class RendezvousSetting(Struct, frozen=True, kw_only=True):
    """A setting of the rendezvous backend."""

    key: Annotated[str, field_doc("Name of the setting.")]
    value: Annotated[str, field_doc("Value of the setting.")]


class PyTorchElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Elastic training with torchrun."""

    min_replicas: Annotated[Count | None, field_doc("Minimum number of workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, field_doc("Maximum number of workers. Default: their replicas.")] = None
    rdzv_backend: Annotated[str, field_doc("Rendezvous backend: c10d (the default), etcd, etcd-v2.")] = ""
    rdzv_port: Annotated[Count | None, field_doc("Rendezvous port. Default: the port named pytorchjob-port.")] = None
    rdzv_host: Annotated[str, field_doc("Rendezvous host. Default: the first worker.")] = ""
    rdzv_id: Annotated[str, field_doc("Rendezvous ID. Default: unique for each attempt.")] = ""
    rdzv_conf: Annotated[list[RendezvousSetting], field_doc("Settings of the rendezvous backend.", nullable=True)] = []
    standalone: Annotated[bool, field_doc("Whether each worker trains independently.")] = False
    n_proc_per_node: Annotated[Count | None, field_doc("Deprecated; use spec.nprocPerNode.")] = None
    max_restarts: Annotated[Count | None, field_doc("Maximum number of process restarts per worker.")] = None
    metrics: AutoscalerMetrics = []


class PyTorchJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    elastic_policy: Annotated[
        PyTorchElasticPolicy | None, field_doc("Elastic training, if set.", rules=BOUNDS_RULES)
    ] = None
    nproc_per_node: Annotated[str, field_doc("Processes per replica: auto (the default), cpu, gpu or a number.")] = ""
    pytorch_replica_specs: Annotated[KubeflowReplicaSpecs, field_doc("Replicas by type: Master, Worker.")] = field(
        default_factory=dict
    )


class PyTorchJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "PyTorchJob", PyTorchJobSpec, "A training job that runs PyTorch.", "pytorchReplicaSpecs", is_scalable=True
    )
    kubeflow_kind = KubeflowKind(
        framework="pytorch",
        replica_specs_field="pytorchReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="pytorch",
        default_port=Port("pytorchjob-port", 23456),
        default_restart_policy=ReplicaRestartPolicy.ON_FAILURE,
    )

    def end_policies(self, spec: PyTorchJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The job completes with its master; without a master with all workers, or with any elastic worker."""
        if MASTER in roles:
            return GroupEndPolicies(EndPolicy.RANK0) if role == MASTER else GroupEndPolicies()
        return GroupEndPolicies(EndPolicy.ANY if spec.elastic_policy else EndPolicy.ALL)

    def framework_options(self, spec: PyTorchJobSpec) -> Mapping[str, Any]:
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
        elastic = spec.elastic_policy
        return ReplicaBounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
