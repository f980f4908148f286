"""What a front end must be able to do for its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pliant.errors import InvalidSpec
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.scale_plans import PlanStatus, ScalePlan


@runtime_checkable
class CustomResourceType(Protocol):
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
class PlanFrontend(CustomResourceType, Protocol):
    """Speaks one kind of plans: raw object to Plan, status back into the kind's own words."""

    def parse(self, raw: Mapping[str, Any]) -> ScalePlan:
        """The plan in a raw object; one that cannot be read has a problem, and nothing is raised."""

    def render_status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        """The whole new raw status."""

    def owner_job_name(self, raw: Mapping[str, Any]) -> str:
        """The name of the job that a raw plan is for, in its namespace; empty if it names none."""

    @property
    def owner_field(self) -> str:
        """Where that is written, `spec.ownerJob`."""

    @property
    def no_relaunch_labels(self) -> Mapping[str, str]:
        """Labels by which a pod tells its master that nobody is to take its place."""

    @property
    def claim_label(self) -> str:
        """The label by which masters other than ours find plans of people, and act on them again and again."""


@runtime_checkable
class Frontend(CustomResourceType, Protocol):
    """Speaks one kind of training resource: raw object to Job, status back into the kind's own words."""

    @property
    def run_policy_path(self) -> str:
        """Where `suspend` and `managedBy` are written, `spec`; empty if the kind has no such fields."""
        return ""

    @property
    def plan_frontend(self) -> PlanFrontend | None:
        """The kind of objects that say which members its jobs are to have, if there is one."""
        return None

    @property
    def external_pods_label(self) -> str:
        """The label by which pods that a job's own master makes name their job; empty if none does."""
        return ""

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""

    def render_status(self, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The whole new raw status: what it lacks must go. History is carried over from the previous one.

        The job's elastic group, if it has one, is what the scale subresource speaks of.
        """

    def render_rejection(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The raw status that tells a user what to fix; everything remembered stays."""

    def is_rejected(self, status: Mapping[str, Any]) -> bool:
        """Whether a raw status still tells of a problem: it must be written anew once the object parses again."""


def required_crds(frontend: Frontend) -> list[dict[str, Any]]:
    """The CustomResourceDefinitions that a kind needs: its own, and that of plans for its jobs."""
    return [frontend.crd(), *([frontend.plan_frontend.crd()] if frontend.plan_frontend is not None else [])]


RawStatus = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRenderer:
    """The status of one kind, in its own words."""

    render: Callable[[JobStatusUpdate, RawStatus, Job], dict[str, Any]]
    render_rejection: Callable[[InvalidSpec, RawStatus, datetime], dict[str, Any]]
    is_rejected: Callable[[RawStatus], bool]


class RenderingFrontend(Frontend):
    """The base of front ends whose words are functions of their own."""

    renderer: StatusRenderer

    def render_status(self, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """The whole new raw status; history is carried over from the previous one."""
        return self.renderer.render(status, previous, job)

    def render_rejection(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """The raw status that tells a user what to fix; everything remembered stays."""
        return self.renderer.render_rejection(problem, previous, now)

    def is_rejected(self, status: Mapping[str, Any]) -> bool:
        """Whether a status still tells of a problem, so that it must be written once the problem is gone."""
        return self.renderer.is_rejected(status)
