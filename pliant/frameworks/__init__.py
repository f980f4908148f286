"""The built-in frameworks: the environment, ports and files of their replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.frameworks.dlrover import DLRover
from pliant.frameworks.generic import Generic
from pliant.frameworks.jax import Jax
from pliant.frameworks.mpi import Mpi
from pliant.frameworks.mxnet import MXNet
from pliant.frameworks.paddle import Paddle
from pliant.frameworks.pytorch import DeepSpeed, PyTorch
from pliant.frameworks.tensorflow import TensorFlow
from pliant.frameworks.xgboost import XGBoost
from pliant.model.departures import PublishedMember
from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Port, ReplicaGroup

_CLASSES = (Generic, PyTorch, TensorFlow, MXNet, Paddle, Jax, XGBoost, DeepSpeed, Mpi, DLRover)
_BUILT_IN: tuple[Framework, ...] = tuple(framework_class() for framework_class in _CLASSES)
FRAMEWORKS: dict[str, Framework] = {name: each for each in _BUILT_IN for name in (each.name, *each.aliases)}
"""The built-in frameworks by name and alias."""


def resolve_framework(job: Job, registry: Mapping[str, Framework] = FRAMEWORKS) -> Framework:
    """Return the framework of a job, combined if it names several; unknown names are ignored."""
    known = [registry[name] for name in job.frameworks if name in registry]
    return known[0] if len(known) == 1 else CombinedFramework(known)


class CombinedFramework(Framework):
    """The union of several frameworks; where two of them conflict, the later one wins."""

    def __init__(self, frameworks: Sequence[Framework]) -> None:
        self._frameworks = frameworks

    @property
    def name(self) -> str:
        return "+".join(each.name for each in self._frameworks)

    @property
    def roles(self) -> tuple[Role, ...]:
        return next((each.roles for each in reversed(self._frameworks) if each.roles), ())

    @property
    def port(self) -> Port | None:
        return next((each.port for each in reversed(self._frameworks) if each.port), None)

    @property
    def files_dir(self) -> str:
        return next((each.files_dir for each in reversed(self._frameworks) if each.files_dir), "")

    def control_group(self, job: Job) -> ReplicaGroup | None:
        return next((group for each in self._frameworks if (group := each.control_group(job)) is not None), None)

    def membership_files(self, job: Job, members: Sequence[PublishedMember]) -> Mapping[str, str]:
        return {name: text for each in self._frameworks for name, text in each.membership_files(job, members).items()}

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {name: value for each in self._frameworks for name, value in each.shared_environment(job).items()}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        variables: dict[str, str] = {}
        for framework in self._frameworks:
            variables |= framework.environment(job, rank, container)
        return variables

    def files(self, job: Job) -> Mapping[str, str]:
        return {name: text for each in self._frameworks for name, text in each.files(job).items()}
