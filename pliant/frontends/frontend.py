"""The interface of front ends: a front end parses the objects of one kind and renders their status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, build_crd
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.scale_plans import PlanStatus, ScalePlan


@runtime_checkable
class CustomResourceType(Protocol):
    """A kind that a CustomResourceDefinition adds to a cluster."""

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
        """The resource name in API paths, `aitrainingjobs`."""

    def crd(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition of the kind."""


@runtime_checkable
class PlanFrontend(CustomResourceType, Protocol):
    """Parses scale plans of one kind and renders their status."""

    def parse(self, raw: Mapping[str, Any]) -> ScalePlan:
        """Return the plan of a raw object. An invalid object sets `parse_error` and raises nothing."""

    def render_status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        """Return the complete new raw status."""

    def owner_job_name(self, raw: Mapping[str, Any]) -> str:
        """Return the name of the job that a raw plan belongs to, or an empty string."""

    @property
    def owner_field(self) -> str:
        """The field that names the job, `spec.ownerJob`."""

    @property
    def no_relaunch_labels(self) -> Mapping[str, str]:
        """Pod labels that keep a job's own master from relaunching the pod."""

    @property
    def claim_label(self) -> str:
        """The label by which DLRover masters select manual plans; they execute a labeled plan repeatedly."""


@runtime_checkable
class Frontend(CustomResourceType, Protocol):
    """Parses training jobs of one kind and renders their status."""

    @property
    def run_policy_path(self) -> str:
        """The path of the object that holds `suspend` and `managedBy`, `spec`; empty if the kind has neither."""
        return ""

    @property
    def plan_frontend(self) -> PlanFrontend | None:
        """The front end of the scale plans for jobs of this kind, if there are any."""
        return None

    @property
    def master_pods_job_label(self) -> str:
        """The label that holds the job name on pods that a job's own master creates; empty if masters create none."""
        return ""

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """Return the job of a raw object; raise InvalidSpec that names the invalid field."""

    def render_status(self, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """Return the complete new raw status, with the condition history of the previous status."""

    def add_validation_error(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """Return the previous raw status, engine state included, with the validation error."""

    def has_validation_error(self, status: Mapping[str, Any]) -> bool:
        """Return whether a raw status reports a validation error; it is rewritten once the object is valid."""


def required_crds(frontend: Frontend) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of a kind and of its scale plans."""
    return [frontend.crd(), *([frontend.plan_frontend.crd()] if frontend.plan_frontend is not None else [])]


RawStatus = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRenderer:
    """The functions that render and inspect the raw status of one kind."""

    render: Callable[[JobStatusUpdate, RawStatus, Job], dict[str, Any]]
    add_validation_error: Callable[[InvalidSpec, RawStatus, datetime], dict[str, Any]]
    has_validation_error: Callable[[RawStatus], bool]


class RenderingFrontend(Frontend):
    """The base class of front ends that are defined by a CustomKind and a StatusRenderer."""

    renderer: StatusRenderer

    @property
    def custom_kind(self) -> CustomKind:
        """The definition of the kind."""
        raise NotImplementedError

    @property
    def group(self) -> str:
        return self.custom_kind.group

    @property
    def version(self) -> str:
        return self.custom_kind.version

    @property
    def kind(self) -> str:
        return self.custom_kind.kind

    @property
    def plural(self) -> str:
        return self.custom_kind.plural

    def crd(self) -> dict[str, Any]:
        return build_crd(self.custom_kind)

    def render_status(self, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        return self.renderer.render(status, previous, job)

    def add_validation_error(self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        return self.renderer.add_validation_error(problem, previous, now)

    def has_validation_error(self, status: Mapping[str, Any]) -> bool:
        return self.renderer.has_validation_error(status)
