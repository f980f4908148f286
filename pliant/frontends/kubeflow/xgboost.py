"""XGBoostJob: a master leads, workers help it."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import CustomKind, field_doc
from pliant.frontends.kubeflow.job import API_GROUP, API_VERSION, PRINTER_COLUMNS, KubeflowJobFrontend, KubeflowKind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowJobStatus, KubeflowReplicaSpec
from pliant.model.job import Port

MASTER, WORKER = "Master", "Worker"


class XGBoostJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """What is to be trained, and how."""

    xgb_replica_specs: Annotated[dict[str, KubeflowReplicaSpec], field_doc("The groups: Master, Worker.")] = field(
        default_factory=dict
    )


class XGBoostJobFrontend(KubeflowJobFrontend):
    """The front end of XGBoostJob, also used for LightGBM."""

    kubeflow_kind = KubeflowKind(
        custom_kind=CustomKind(
            group=API_GROUP,
            version=API_VERSION,
            kind="XGBoostJob",
            plural="xgboostjobs",
            description="A training job written with XGBoost or LightGBM.",
            spec_type=XGBoostJobSpec,
            status_type=KubeflowJobStatus,
            printer_columns=PRINTER_COLUMNS,
        ),
        framework="xgboost",
        replica_specs_field="xgbReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="xgboost",
        default_port=Port("xgboostjob-port", 9999),
        single_replica_roles=frozenset({MASTER}),
        required_role=MASTER,
    )
