"""What a front end must be able to do for its kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pliant.errors import InvalidSpec
from pliant.model.actions import JobStatus
from pliant.model.job import Job


@runtime_checkable
class Frontend(Protocol):
    """Speaks one kind of training resource: raw object to Job, status back into the kind's own words."""

    @property
    def group(self) -> str:
        """The API group, `elasticdeeplearning.ai`."""

    @property
    def version(self) -> str:
        """The API version, `v1`."""

    @property
    def kind(self) -> str:
        """The kind, `AITrainingJob`."""

    @property
    def plural(self) -> str:
        """The resource name in paths, `aitrainingjobs`."""

    @property
    def policy_field(self) -> str:
        """Where `suspend` and `managedBy` are written, `spec`; empty if the kind has no such fields."""
        return ""

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""

    def status(self, status: JobStatus, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The whole new raw status: what it lacks must go. History is carried over from the previous one.

        The job's elastic group, if it has one, is what the scale subresource speaks of.
        """

    def rejection(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The raw status that tells a user what to fix; everything remembered stays."""

    def is_rejected(self, previous: Mapping[str, Any]) -> bool:
        """Whether a raw status still tells of a problem: it must be written anew once the object parses again."""
