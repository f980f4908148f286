"""One training framework per file: which environment, ports and files a rank needs."""

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

_BUILT_IN: tuple[Framework, ...] = (
    Generic(),
    PyTorch(),
    TensorFlow(),
    MXNet(),
    Paddle(),
    Jax(),
    XGBoost(),
    DeepSpeed(),
    Mpi(),
    DLRover(),
)

FRAMEWORKS: dict[str, Framework] = {word: each for each in _BUILT_IN for word in (each.name, *each.aliases)}
"""Every framework with a contract of its own, by each word that users write for it."""


def resolve_framework(job: Job, registry: Mapping[str, Framework] = FRAMEWORKS) -> Framework:
    """What the members of a job are given; frameworks that nobody knows add nothing."""
    known = [registry[name] for name in job.frameworks if name in registry]
    return known[0] if len(known) == 1 else CombinedFramework(known)


__all__ = ["FRAMEWORKS", "resolve_framework"]
