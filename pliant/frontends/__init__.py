"""One resource kind per file: a raw object becomes a Job, a Job's status becomes the kind's own words."""

from __future__ import annotations

from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.dl.mpba import MpbaMXJob as ListedMXJob
from pliant.frontends.dl.mpba import MpbaTFJob as ListedTFJob
from pliant.frontends.elasticjob.job import ElasticJobFrontend
from pliant.frontends.frontend import Frontend
from pliant.frontends.kubeflow.jax import JAXJobFrontend
from pliant.frontends.kubeflow.mpi import MPIJobFrontend
from pliant.frontends.kubeflow.mxnet import MXJobFrontend
from pliant.frontends.kubeflow.paddle import KubeflowPaddleJobFrontend
from pliant.frontends.kubeflow.pytorch import PyTorchJobFrontend
from pliant.frontends.kubeflow.tensorflow import TFJobFrontend
from pliant.frontends.kubeflow.xgboost import XGBoostJobFrontend
from pliant.frontends.paddle.job import PaddleJobFrontend as OldPaddleJob
from pliant.frontends.paddle.job import TrainingJobFrontend
from pliant.frontends.paddle_batch.job import BatchPaddleJobFrontend as BatchPaddleJob

_BUILTIN_FRONTENDS: tuple[Frontend, ...] = (
    AITrainingJobFrontend(),
    OldPaddleJob(),
    TrainingJobFrontend(),
    PyTorchJobFrontend(),
    TFJobFrontend(),
    MXJobFrontend(),
    XGBoostJobFrontend(),
    KubeflowPaddleJobFrontend(),
    JAXJobFrontend(),
    MPIJobFrontend(),
    ListedMXJob(),
    ListedTFJob(),
    BatchPaddleJob(),
    ElasticJobFrontend(),
)

FRONTENDS: dict[tuple[str, str], Frontend] = {(each.group, each.kind): each for each in _BUILTIN_FRONTENDS}
"""Every kind that is understood, by API group and kind: several groups have a kind of the same name."""

__all__ = ["FRONTENDS", "Frontend"]
