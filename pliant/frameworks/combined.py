"""A framework that combines several others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pliant.model.framework import Framework, Rank, Role
from pliant.model.job import Job, Port


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

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {name: value for each in self._frameworks for name, value in each.shared_environment(job).items()}

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        variables: dict[str, str] = {}
        for framework in self._frameworks:
            variables |= framework.environment(job, rank, container)
        return variables

    def files(self, job: Job) -> Mapping[str, str]:
        return {name: text for each in self._frameworks for name, text in each.files(job).items()}
