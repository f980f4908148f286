"""What a front end must be able to do for its kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pliant.errors import InvalidSpec
from pliant.model.actions import JobStatus
from pliant.model.job import Job
from pliant.model.plans import Plan, PlanStatus


@runtime_checkable
class Defined(Protocol):
    """A kind that a cluster is taught."""

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

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""


@runtime_checkable
class PlanKind(Defined, Protocol):
    """Speaks one kind of plans: raw object to Plan, status back into the kind's own words."""

    def parse(self, raw: Mapping[str, Any]) -> Plan:
        """The plan in a raw object; one that cannot be read has a problem, and nothing is raised."""

    def status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        """The whole new raw status."""

    def owner(self, raw: Mapping[str, Any]) -> str:
        """The name of the job that a raw plan is for, in its namespace; empty if it names none."""

    @property
    def owner_field(self) -> str:
        """Where that is written, `spec.ownerJob`."""

    @property
    def farewell(self) -> Mapping[str, str]:
        """Labels by which a pod tells its master that nobody is to take its place."""

    @property
    def bait(self) -> str:
        """The label by which masters other than ours find plans of people, and act on them again and again."""


@runtime_checkable
class Frontend(Defined, Protocol):
    """Speaks one kind of training resource: raw object to Job, status back into the kind's own words."""

    @property
    def policy_field(self) -> str:
        """Where `suspend` and `managedBy` are written, `spec`; empty if the kind has no such fields."""
        return ""

    @property
    def plans(self) -> PlanKind | None:
        """The kind of objects that say which members its jobs are to have, if there is one."""
        return None

    @property
    def foreign_pods(self) -> str:
        """The label by which pods that a job's own master makes name their job; empty if none does."""
        return ""

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


def definitions(kind: Frontend) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions that a kind needs: its own, and that of plans for its jobs."""
    return [kind.crd(), *([kind.plans.crd()] if kind.plans is not None else [])]
