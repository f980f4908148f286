"""One resource kind per file: a raw object becomes a Job, a Job's status becomes the kind's own words."""

from __future__ import annotations

from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.frontends.base import Frontend
from pliant.frontends.elasticjob.job import ElasticJob
from pliant.frontends.kubeflow.jax import JAXJob
from pliant.frontends.kubeflow.mpi import MPIJob
from pliant.frontends.kubeflow.mxnet import MXJob
from pliant.frontends.kubeflow.paddle import PaddleJob
from pliant.frontends.kubeflow.pytorch import PyTorchJob
from pliant.frontends.kubeflow.tensorflow import TFJob
from pliant.frontends.kubeflow.xgboost import XGBoostJob
from pliant.frontends.mpba import MXJob as ListedMXJob
from pliant.frontends.mpba import TFJob as ListedTFJob
from pliant.frontends.paddle.job import PaddleJob as OldPaddleJob
from pliant.frontends.paddle.job import TrainingJob
from pliant.frontends.paddle_batch.job import PaddleJob as BatchPaddleJob

_KNOWN: tuple[Frontend, ...] = (
    AITrainingJob(),
    OldPaddleJob(),
    TrainingJob(),
    PyTorchJob(),
    TFJob(),
    MXJob(),
    XGBoostJob(),
    PaddleJob(),
    JAXJob(),
    MPIJob(),
    ListedMXJob(),
    ListedTFJob(),
    BatchPaddleJob(),
    ElasticJob(),
)

FRONTENDS: dict[tuple[str, str], Frontend] = {(each.group, each.kind): each for each in _KNOWN}
"""Every kind that is understood, by API group and kind: several groups have a kind of the same name."""

__all__ = ["FRONTENDS", "Frontend"]
