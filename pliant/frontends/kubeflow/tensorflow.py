"""TFJob: a chief or its first worker leads, parameter servers and evaluators serve."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import (
    API_GROUP,
    API_VERSION,
    PRINTER_COLUMNS,
    GroupEndPolicies,
    KubeflowJobFrontend,
    KubeflowKind,
    worker_scale_paths,
)
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowJobStatus, KubeflowReplicaSpec
from pliant.model.job import EndPolicy, Port

CHIEF, MASTER, WORKER, PS, EVALUATOR = "Chief", "Master", "Worker", "PS", "Evaluator"


class TFSuccessPolicy(StrEnum):
    """Whose success is the job's when it has no chief."""

    ALL_WORKERS = "AllWorkers"


class TFJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    success_policy: Annotated[
        TFSuccessPolicy | None,
        field_doc("Whose success is the job's: all workers' (AllWorkers), else the chief's or the first worker's."),
    ] = None
    enable_dynamic_worker: Annotated[
        bool, field_doc("Whether workers may come, go and fail one by one: each is told of itself and of the servers.")
    ] = False
    tf_replica_specs: Annotated[
        dict[str, KubeflowReplicaSpec], field_doc("The groups: Chief or Master, Worker, PS, Evaluator.")
    ] = field(default_factory=dict)


class TFJobFrontend(KubeflowJobFrontend):
    """The front end of TFJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="TFJob",
            plural="tfjobs",
            description="A training job written with TensorFlow.",
            spec_type=TFJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
            scale_paths=worker_scale_paths("tfReplicaSpecs"),
        ),
        framework="tensorflow",
        replica_specs_field="tfReplicaSpecs",
        roles=(CHIEF, MASTER, WORKER, PS, EVALUATOR),
        main_container="tensorflow",
        default_port=Port("tfjob-port", 2222),
        single_replica_roles=frozenset({CHIEF, MASTER}),
    )

    def check_roles(self, roles: tuple[str, ...]) -> None:
        """A job has one leader."""
        if CHIEF in roles and MASTER in roles:
            raise InvalidSpec(f"spec.tfReplicaSpecs.{MASTER}", f"is another word for {CHIEF}: keep one of the two")

    def end_policies(self, spec: TFJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The chief's end is the job's, else the first worker's; those who serve never end a job well."""
        fails = EndPolicy.NONE if spec.enable_dynamic_worker and role == WORKER else EndPolicy.ANY
        leader = next((each for each in (CHIEF, MASTER, WORKER) if each in roles), roles[0])
        if role != leader:
            return GroupEndPolicies(fail=fails)
        is_all = leader == WORKER and spec.success_policy is TFSuccessPolicy.ALL_WORKERS
        return GroupEndPolicies(EndPolicy.ALL if is_all else EndPolicy.RANK0, fails)

    def framework_options(self, spec: TFJobSpec) -> Mapping[str, Any]:
        """Whether workers are told of each other."""
        return {"dynamic_workers": spec.enable_dynamic_worker}
