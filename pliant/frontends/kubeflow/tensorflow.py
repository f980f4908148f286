"""TFJob: a chief or its first worker leads, parameter servers and evaluators serve."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import COLUMNS, GROUP, VERSION, Dialect, Ends, KubeflowJob, worker_scale
from pliant.frontends.kubeflow.types import JobSpec, JobStatus, ReplicaSpec
from pliant.model.job import EndPolicy, Port

CHIEF, MASTER, WORKER, PS, EVALUATOR = "Chief", "Master", "Worker", "PS", "Evaluator"


class SuccessPolicy(StrEnum):
    """Whose success is the job's when it has no chief."""

    ALL_WORKERS = "AllWorkers"


class TFJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    success_policy: Annotated[
        SuccessPolicy | None,
        told("Whose success is the job's: all workers' (AllWorkers), else the chief's or the first worker's."),
    ] = None
    enable_dynamic_worker: Annotated[
        bool, told("Whether workers may come, go and fail one by one: each is told of itself and of the servers.")
    ] = False
    tf_replica_specs: Annotated[
        dict[str, ReplicaSpec], told("The groups: Chief or Master, Worker, PS, Evaluator.")
    ] = field(default_factory=dict)


class TFJob(KubeflowJob):
    """The front end of TFJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="TFJob",
            plural="tfjobs",
            description="A training job written with TensorFlow.",
            spec=TFJobSpec,
            status=JobStatus,
            columns=COLUMNS,
            scale=worker_scale("tfReplicaSpecs"),
        ),
        framework="tensorflow",
        replica_specs="tfReplicaSpecs",
        roles=(CHIEF, MASTER, WORKER, PS, EVALUATOR),
        container="tensorflow",
        port=Port("tfjob-port", 2222),
        single=frozenset({CHIEF, MASTER}),
    )

    def check(self, roles: tuple[str, ...]) -> None:
        """A job has one leader."""
        if CHIEF in roles and MASTER in roles:
            raise InvalidSpec(f"spec.tfReplicaSpecs.{MASTER}", f"is another word for {CHIEF}: keep one of the two")

    def ends(self, spec: TFJobSpec, role: str, roles: tuple[str, ...]) -> Ends:
        """The chief's end is the job's, else the first worker's; those who serve never end a job well."""
        fails = EndPolicy.NONE if spec.enable_dynamic_worker and role == WORKER else EndPolicy.ANY
        leader = next((each for each in (CHIEF, MASTER, WORKER) if each in roles), roles[0])
        if role != leader:
            return Ends(fail=fails)
        is_all = leader == WORKER and spec.success_policy is SuccessPolicy.ALL_WORKERS
        return Ends(EndPolicy.ALL if is_all else EndPolicy.RANK0, fails)

    def options(self, spec: TFJobSpec) -> Mapping[str, Any]:
        """Whether workers are told of each other."""
        return {"dynamic_workers": spec.enable_dynamic_worker}
