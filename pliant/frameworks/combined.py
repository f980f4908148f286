"""Several contracts at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Port


class CombinedFramework(Framework):
    """Gives what each of several frameworks gives; where two say different things, the later one is right."""

    def __init__(self, frameworks: Sequence[Framework]) -> None:
        self._frameworks = frameworks

    @property
    def name(self) -> str:
        """The words users write to choose them."""
        return "+".join(part.name for part in self._frameworks)

    @property
    def roles(self) -> tuple[Role, ...]:
        """Those of the last framework that has some."""
        return next((part.roles for part in reversed(self._frameworks) if part.roles), ())

    @property
    def port(self) -> Port | None:
        """That of the last framework that has one."""
        return next((part.port for part in reversed(self._frameworks) if part.port), None)

    @property
    def files_dir(self) -> str:
        """That of the last framework that has one."""
        return next((part.files_dir for part in reversed(self._frameworks) if part.files_dir), "")

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        """The shared variables of all."""
        return {name: value for part in self._frameworks for name, value in part.shared_environment(job).items()}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables of all."""
        return {
            name: value for part in self._frameworks for name, value in part.environment(job, rank, container).items()
        }

    def files(self, job: Job) -> Mapping[str, str]:
        """The files of all."""
        return {name: text for part in self._frameworks for name, text in part.files(job).items()}
