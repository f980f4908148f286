"""XGBoostJob: a master leads, workers help it."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, told
from pliant.frontends.kubeflow.base import COLUMNS, GROUP, VERSION, Dialect, KubeflowJob
from pliant.frontends.kubeflow.types import JobSpec, JobStatus, ReplicaSpec
from pliant.model.job import Port

MASTER, WORKER = "Master", "Worker"


class XGBoostJobSpec(JobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    xgb_replica_specs: Annotated[dict[str, ReplicaSpec], told("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class XGBoostJob(KubeflowJob):
    """The front end of XGBoostJob, also used for LightGBM."""

    dialect = Dialect(
        kind=CustomKind(
            group=GROUP,
            version=VERSION,
            kind="XGBoostJob",
            plural="xgboostjobs",
            description="A training job written with XGBoost or LightGBM.",
            spec=XGBoostJobSpec,
            status=JobStatus,
            columns=COLUMNS,
        ),
        framework="xgboost",
        replica_specs="xgbReplicaSpecs",
        roles=(MASTER, WORKER),
        container="xgboost",
        port=Port("xgboostjob-port", 9999),
        single=frozenset({MASTER}),
        needed=MASTER,
    )
