"""MXJob: workers train through servers that a scheduler brings together; or a tuner looks for settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import (
    API_GROUP,
    API_VERSION,
    PRINTER_COLUMNS,
    GroupEndPolicies,
    KubeflowJobFrontend,
    KubeflowKind,
)
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowJobStatus, KubeflowReplicaSpec
from pliant.model.job import EndPolicy, Port

SCHEDULER, SERVER, WORKER = "Scheduler", "Server", "Worker"
TUNER_TRACKER, TUNER_SERVER, TUNER = "TunerTracker", "TunerServer", "Tuner"


class MXJobMode(StrEnum):
    """What an MXJob does."""

    TRAIN = "MXTrain"
    TUNE = "MXTune"


class MXJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    job_mode: Annotated[
        MXJobMode | None, field_doc("MXTrain: the workers' end is the job's; MXTune: the tuner's. Told by the groups.")
    ] = None
    mx_replica_specs: Annotated[
        dict[str, KubeflowReplicaSpec],
        field_doc("The groups: Scheduler, Server, Worker; for tuning TunerTracker, TunerServer, Tuner."),
    ] = field(default_factory=dict)


class MXJobFrontend(KubeflowJobFrontend):
    """The front end of MXJob."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="MXJob",
            plural="mxjobs",
            description="A training job written with MXNet.",
            spec_type=MXJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
        ),
        framework="mxnet",
        replica_specs_field="mxReplicaSpecs",
        roles=(SCHEDULER, SERVER, WORKER, TUNER_TRACKER, TUNER_SERVER, TUNER),
        main_container="mxnet",
        default_port=Port("mxjob-port", 9091),
        single_replica_roles=frozenset({SCHEDULER}),
    )

    def end_policies(self, spec: MXJobSpec, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """All workers' ends are the job's, or the tuner's; servers, schedulers and trackers only serve."""
        order = (TUNER, WORKER) if spec.job_mode is MXJobMode.TUNE else (WORKER, TUNER)
        leader = next((each for each in order if each in roles), roles[0])
        return GroupEndPolicies(EndPolicy.ALL) if role == leader else GroupEndPolicies()
