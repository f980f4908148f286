"""MXJob: workers train through servers that a scheduler brings together; or a tuner looks for settings."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import COLUMNS, GROUP, VERSION, Dialect, Ends, KubeflowJob
from pliant.frontends.kubeflow.types import JobSpec, JobStatus, ReplicaSpec
from pliant.model.job import EndPolicy, Port

SCHEDULER, SERVER, WORKER = "Scheduler", "Server", "Worker"
TRACKER, TUNER_SERVER, TUNER = "TunerTracker", "TunerServer", "Tuner"


class JobMode(StrEnum):
    """What an MXJob does."""

    TRAIN = "MXTrain"
    TUNE = "MXTune"


class MXJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    job_mode: Annotated[
        JobMode | None, told("MXTrain: the workers' end is the job's; MXTune: the tuner's. Told by the groups.")
    ] = None
    mx_replica_specs: Annotated[
        dict[str, ReplicaSpec],
        told("The groups: Scheduler, Server, Worker; for tuning TunerTracker, TunerServer, Tuner."),
    ] = field(default_factory=dict)


class MXJob(KubeflowJob):
    """The front end of MXJob."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="MXJob",
            plural="mxjobs",
            description="A training job written with MXNet.",
            spec=MXJobSpec,
            status=JobStatus,
            columns=COLUMNS,
        ),
        framework="mxnet",
        replica_specs="mxReplicaSpecs",
        roles=(SCHEDULER, SERVER, WORKER, TRACKER, TUNER_SERVER, TUNER),
        container="mxnet",
        port=Port("mxjob-port", 9091),
        single=frozenset({SCHEDULER}),
    )

    def ends(self, spec: MXJobSpec, role: str, roles: tuple[str, ...]) -> Ends:
        """All workers' ends are the job's, or the tuner's; servers, schedulers and trackers only serve."""
        order = (TUNER, WORKER) if spec.job_mode is JobMode.TUNE else (WORKER, TUNER)
        leader = next((each for each in order if each in roles), roles[0])
        return Ends(EndPolicy.ALL) if role == leader else Ends()
