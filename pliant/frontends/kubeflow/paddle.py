"""PaddleJob: collective training with workers, or parameter servers with a master; optionally elastic."""

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


class PaddleElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """Elastic training with Paddle's launcher."""

    min_replicas: Annotated[Count | None, field_doc("Minimum number of workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, field_doc("Maximum number of workers. Default: their replicas.")] = None
    max_restarts: Annotated[Count | None, field_doc("Maximum number of process restarts per worker.")] = None
    metrics: AutoscalerMetrics = []


class KubeflowPaddleJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    elastic_policy: Annotated[
        PaddleElasticPolicy | None, field_doc("Elastic training, if set.", rules=BOUNDS_RULES)
    ] = None
    paddle_replica_specs: Annotated[KubeflowReplicaSpecs, field_doc("Replicas by type: Master, Worker.")] = field(
        default_factory=dict
    )


class KubeflowPaddleJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "PaddleJob",
        KubeflowPaddleJobSpec,
        "A training job that runs PaddlePaddle.",
        "paddleReplicaSpecs",
        is_scalable=True,
    )
    kubeflow_kind = KubeflowKind(
        framework="paddle",
        replica_specs_field="paddleReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="paddle",
        default_port=Port("master", 36543),
        default_restart_policy=ReplicaRestartPolicy.ON_FAILURE,
    )

    def end_policies(self, spec: KubeflowPaddleJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The job completes when its master succeeds or, without a master, when all workers succeed."""
        return GroupEndPolicies(EndPolicy.ALL) if role == roles[0] else GroupEndPolicies()

    def framework_options(self, spec: KubeflowPaddleJobSpec) -> Mapping[str, Any]:
        return {"max_restarts": spec.elastic_policy.max_restarts if spec.elastic_policy else None}

    def replica_bounds(self, spec: KubeflowPaddleJobSpec, role: str) -> ReplicaBounds | None:
        elastic = spec.elastic_policy
        return ReplicaBounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
