"""MXJob: training with a scheduler, servers and workers, or hyperparameter tuning with a tuner."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import field

from pliant.frontends.crd import field_doc
from pliant.frontends.kubeflow.job import GroupEndPolicies, KubeflowJobFrontend, KubeflowKind, define_kind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowReplicaSpecs
from pliant.model.job import EndPolicy, Port

SCHEDULER, SERVER, WORKER = "Scheduler", "Server", "Worker"
TUNER_TRACKER, TUNER_SERVER, TUNER = "TunerTracker", "TunerServer", "Tuner"


class MXJobMode(StrEnum):
    TRAIN = "MXTrain"
    TUNE = "MXTune"


class MXJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    job_mode: Annotated[
        MXJobMode | None,
        field_doc("MXTrain: the workers complete the job. MXTune: the tuner completes it. Default: by replica types."),
    ] = None
    mx_replica_specs: Annotated[
        KubeflowReplicaSpecs,
        field_doc("Replicas by type: Scheduler, Server, Worker; for tuning TunerTracker, TunerServer, Tuner."),
    ] = field(default_factory=dict)


class MXJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind("MXJob", MXJobSpec, "A training job that runs MXNet.", "mxReplicaSpecs")
    kubeflow_kind = KubeflowKind(
        framework="mxnet",
        replica_specs_field="mxReplicaSpecs",
        roles=(SCHEDULER, SERVER, WORKER, TUNER_TRACKER, TUNER_SERVER, TUNER),
        main_container="mxnet",
        default_port=Port("mxjob-port", 9091),
        single_replica_roles=frozenset({SCHEDULER}),
    )

    def end_policies(self, spec: MXJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """The job completes when all workers, or all tuners, succeed."""
        order = (TUNER, WORKER) if spec.job_mode is MXJobMode.TUNE else (WORKER, TUNER)
        completing_role = next((each for each in order if each in roles), roles[0])
        return GroupEndPolicies(EndPolicy.ALL) if role == completing_role else GroupEndPolicies()
