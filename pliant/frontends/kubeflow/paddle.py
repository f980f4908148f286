"""PaddleJob: equals that train together, or servers led by a master; elastic if asked to be."""

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


class PaddleElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How workers may come and go; Paddle's launcher is told."""

    min_replicas: Annotated[Count | None, field_doc("The fewest workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, field_doc("The most workers. Default: their replicas.")] = None
    max_restarts: Annotated[Count | None, field_doc("How often the launcher restarts the processes of a worker.")] = (
        None
    )
    metrics: Annotated[list[dict[str, Any]], field_doc("For an autoscaler; not read.", nullable=True)] = []


class KubeflowPaddleJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    elastic_policy: Annotated[PaddleElasticPolicy | None, field_doc("Whether and how workers may come and go.")] = None
    paddle_replica_specs: Annotated[dict[str, KubeflowReplicaSpec], field_doc("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class KubeflowPaddleJobFrontend(KubeflowJobFrontend):
    """The front end of PaddleJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="PaddleJob",
            plural="paddlejobs",
            description="A training job written with Paddle.",
            spec_type=KubeflowPaddleJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
            scale_paths=worker_scale_paths("paddleReplicaSpecs"),
        ),
        framework="paddle",
        replica_specs_field="paddleReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="paddle",
        default_port=Port("master", 36543),
        default_restart_policy=KubeflowRestartPolicy.ON_FAILURE,
    )

    def end_policies(self, spec: KubeflowPaddleJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The master's end is the job's; without one, all workers'."""
        return GroupEndPolicies(EndPolicy.ALL) if role == roles[0] else GroupEndPolicies()

    def framework_options(self, spec: KubeflowPaddleJobSpec) -> Mapping[str, Any]:
        """What Paddle's launcher is told."""
        return {"max_restarts": spec.elastic_policy.max_restarts if spec.elastic_policy else None}

    def replica_bounds(self, spec: KubeflowPaddleJobSpec, role: str) -> ReplicaBounds | None:
        """Workers of an elastic job may come and go."""
        elastic = spec.elastic_policy
        return ReplicaBounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
