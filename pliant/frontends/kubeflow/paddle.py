"""PaddleJob: equals that train together, or servers led by a master; elastic if asked to be."""

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


class ElasticPolicy(Struct, frozen=True, kw_only=True, rename="camel"):
    """How workers may come and go; Paddle's launcher is told."""

    min_replicas: Annotated[Count | None, told("The fewest workers. Default: 1.")] = None
    max_replicas: Annotated[Count | None, told("The most workers. Default: their replicas.")] = None
    max_restarts: Annotated[Count | None, told("How often the launcher restarts the processes of a worker.")] = (
        None
    )
    metrics: Annotated[list[dict[str, Any]], told("For an autoscaler; not read.", nullable=True)] = []


class PaddleJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    elastic_policy: Annotated[ElasticPolicy | None, told("Whether and how workers may come and go.")] = None
    paddle_replica_specs: Annotated[dict[str, ReplicaSpec], told("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class PaddleJob(KubeflowJob):
    """The front end of PaddleJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="PaddleJob",
            plural="paddlejobs",
            description="A training job written with Paddle.",
            spec=PaddleJobSpec,
            status=JobStatus,
            columns=COLUMNS,
            scale=worker_scale("paddleReplicaSpecs"),
        ),
        framework="paddle",
        replica_specs="paddleReplicaSpecs",
        roles=(MASTER, WORKER),
        container="paddle",
        port=Port("master", 36543),
        restart=RestartPolicy.ON_FAILURE,
    )

    def ends(self, spec: PaddleJobSpec, role: str, roles: tuple[str, ...]) -> Ends:
        """The master's end is the job's; without one, all workers'."""
        return Ends(EndPolicy.ALL) if role == roles[0] else Ends()

    def options(self, spec: PaddleJobSpec) -> Mapping[str, Any]:
        """What Paddle's launcher is told."""
        return {"max_restarts": spec.elastic_policy.max_restarts if spec.elastic_policy else None}

    def bounds(self, spec: PaddleJobSpec, role: str) -> Bounds | None:
        """Workers of an elastic job may come and go."""
        elastic = spec.elastic_policy
        return Bounds(elastic.min_replicas, elastic.max_replicas) if elastic and role == WORKER else None
