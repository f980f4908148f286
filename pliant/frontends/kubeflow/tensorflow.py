"""TFJob: a chief or the first worker leads the job; parameter servers and evaluators support it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import field

from pliant.errors import InvalidSpec
from pliant.frontends.crd import field_doc
from pliant.frontends.kubeflow.job import GroupEndPolicies, KubeflowJobFrontend, KubeflowKind, define_kind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowReplicaSpecs
from pliant.model.job import EndPolicy, Port

CHIEF, MASTER, WORKER, PS, EVALUATOR = "Chief", "Master", "Worker", "PS", "Evaluator"


class TFSuccessPolicy(StrEnum):
    ALL_WORKERS = "AllWorkers"


class TFJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    success_policy: Annotated[
        TFSuccessPolicy | None,
        field_doc("AllWorkers: the job completes when all workers succeed. Default: when the first worker succeeds."),
    ] = None
    enable_dynamic_worker: Annotated[bool, field_doc("Whether workers may join, leave and fail independently.")] = False
    tf_replica_specs: Annotated[
        KubeflowReplicaSpecs, field_doc("Replicas by type: Chief or Master, Worker, PS, Evaluator.")
    ] = field(default_factory=dict)


class TFJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "TFJob", TFJobSpec, "A training job that runs TensorFlow.", "tfReplicaSpecs", is_scalable=True
    )
    kubeflow_kind = KubeflowKind(
        framework="tensorflow",
        replica_specs_field="tfReplicaSpecs",
        roles=(CHIEF, MASTER, WORKER, PS, EVALUATOR),
        main_container="tensorflow",
        default_port=Port("tfjob-port", 2222),
        single_replica_roles=frozenset({CHIEF, MASTER}),
    )

    def check_roles(self, roles: tuple[str, ...]) -> None:
        if CHIEF in roles and MASTER in roles:
            raise InvalidSpec(f"spec.tfReplicaSpecs.{MASTER}", f"is an alias of {CHIEF}: remove one of them")

    def end_policies(self, spec: TFJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The job completes with its chief; without a chief with the first worker, or with all workers."""
        fail = EndPolicy.NONE if spec.enable_dynamic_worker and role == WORKER else EndPolicy.ANY
        leader = next((each for each in (CHIEF, MASTER, WORKER) if each in roles), roles[0])
        if role != leader:
            return GroupEndPolicies(fail=fail)
        needs_all = leader == WORKER and spec.success_policy is TFSuccessPolicy.ALL_WORKERS
        return GroupEndPolicies(EndPolicy.ALL if needs_all else EndPolicy.RANK0, fail)

    def framework_options(self, spec: TFJobSpec) -> Mapping[str, Any]:
        return {"dynamic_workers": spec.enable_dynamic_worker}
