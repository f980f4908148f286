"""XGBoostJob: a master and workers, for XGBoost and LightGBM."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from pliant.frontends.crd import field_doc
from pliant.frontends.kubeflow.job import KubeflowJobFrontend, KubeflowKind, define_kind
from pliant.frontends.kubeflow.types import KubeflowJobSpec, KubeflowReplicaSpecs
from pliant.model.job import Port

MASTER, WORKER = "Master", "Worker"


class XGBoostJobSpec(KubeflowJobSpec, frozen=True, kw_only=True, rename="camel"):
    """Specification of the desired behavior of the job."""

    xgb_replica_specs: Annotated[KubeflowReplicaSpecs, field_doc("Replicas by type: Master, Worker.")] = field(
        default_factory=dict
    )


class XGBoostJobFrontend(KubeflowJobFrontend):
    custom_kind = define_kind(
        "XGBoostJob", XGBoostJobSpec, "A training job that runs XGBoost or LightGBM.", "xgbReplicaSpecs"
    )
    kubeflow_kind = KubeflowKind(
        framework="xgboost",
        replica_specs_field="xgbReplicaSpecs",
        roles=(MASTER, WORKER),
        main_container="xgboost",
        default_port=Port("xgboostjob-port", 9999),
        single_replica_roles=frozenset({MASTER}),
        required_role=MASTER,
    )
