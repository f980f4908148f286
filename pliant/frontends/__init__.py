"""Front ends: one per resource kind; each parses a raw object into a Job and renders the Job's status."""

from __future__ import annotations

from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.dl.mpba import MpbaMXJob, MpbaTFJob
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import Frontend
from pliant.frontends.kubeflow.jax import JAXJobFrontend
from pliant.frontends.kubeflow.mpi import MPIJobFrontend
from pliant.frontends.kubeflow.mxnet import MXJobFrontend
from pliant.frontends.kubeflow.paddle import KubeflowPaddleJobFrontend
from pliant.frontends.kubeflow.pytorch import PyTorchJobFrontend
from pliant.frontends.kubeflow.tensorflow import TFJobFrontend
from pliant.frontends.kubeflow.xgboost import XGBoostJobFrontend
from pliant.frontends.paddle.job import PaddleJobFrontend, TrainingJobFrontend
from pliant.frontends.paddle_batch.job import BatchPaddleJobFrontend

_BUILTIN_FRONTENDS: tuple[Frontend, ...] = (
    AITrainingJobFrontend(),
    PaddleJobFrontend(),
    TrainingJobFrontend(),
    PyTorchJobFrontend(),
    TFJobFrontend(),
    MXJobFrontend(),
    XGBoostJobFrontend(),
    KubeflowPaddleJobFrontend(),
    JAXJobFrontend(),
    MPIJobFrontend(),
    MpbaMXJob(),
    MpbaTFJob(),
    BatchPaddleJobFrontend(),
    ElasticJobFrontend(),
)

FRONTENDS: dict[tuple[str, str], Frontend] = {(each.group, each.kind): each for each in _BUILTIN_FRONTENDS}
"""The built-in front ends by API group and kind. Several groups have a kind of the same name."""

__all__ = ["FRONTENDS", "Frontend"]
