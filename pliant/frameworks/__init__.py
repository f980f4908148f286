"""The built-in frameworks, one per file: the environment, ports and files of their replicas."""

from __future__ import annotations

from collections.abc import Mapping

from pliant.frameworks.combined import CombinedFramework
from pliant.frameworks.deepspeed import DeepSpeed
from pliant.frameworks.dlrover import DLRover
from pliant.frameworks.generic import Generic
from pliant.frameworks.jax import Jax
from pliant.frameworks.mpi import Mpi
from pliant.frameworks.mxnet import MXNet
from pliant.frameworks.paddle import Paddle
from pliant.frameworks.pytorch import PyTorch
from pliant.frameworks.tensorflow import TensorFlow
from pliant.frameworks.xgboost import XGBoost
from pliant.model.framework import Framework
from pliant.model.job import Job

_CLASSES = (Generic, PyTorch, TensorFlow, MXNet, Paddle, Jax, XGBoost, DeepSpeed, Mpi, DLRover)
_BUILT_IN: tuple[Framework, ...] = tuple(framework_class() for framework_class in _CLASSES)
FRAMEWORKS: dict[str, Framework] = {name: each for each in _BUILT_IN for name in (each.name, *each.aliases)}
"""The built-in frameworks by name and alias."""


def resolve_framework(job: Job, registry: Mapping[str, Framework] = FRAMEWORKS) -> Framework:
    """Return the framework of a job, combined if it names several; unknown names are ignored."""
    known = [registry[name] for name in job.frameworks if name in registry]
    return known[0] if len(known) == 1 else CombinedFramework(known)
