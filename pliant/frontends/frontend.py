"""The interface of front ends: a front end parses the objects of one kind and renders their status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, build_crd
from pliant.frontends.spec.metadata import read_metadata
from pliant.frontends.status.conditions import add_invalid_phase, has_invalid_phase
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.frontends.status.standard import render_standard_status
from pliant.model.actions import JobStatusUpdate
from pliant.model.job import Job
from pliant.model.scale_plans import PlanStatus, ScalePlan
from pliant.model.state import EngineState


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
    """Parses training jobs of one kind and renders their status.

    A kind defines `custom_kind` and `parse`, and `render_status` if it has a status format of its own.
    """

    @property
    def custom_kind(self) -> CustomKind:
        """The definition of the kind."""

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

    @property
    def run_policy_path(self) -> str:
        """The path of the object that holds `suspend` and `managedBy`, `spec`; empty if the kind has neither."""
        return ""

    @property
    def priority_class_path(self) -> str:
        """The field that names the PriorityClass of the pods."""
        return "spec.schedulingPolicy.priorityClass"

    @property
    def conditions_path(self) -> tuple[str, ...]:
        """The path of the conditions in the status."""
        return ("conditions",)

    @property
    def plan_frontend(self) -> PlanFrontend | None:
        """The front end of the scale plans for jobs of this kind, if there are any."""
        return None

    @property
    def master_pods_job_label(self) -> str:
        """The label that holds the job name on pods that a job's own master creates; empty if masters create none."""
        return ""

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        """Return the job of a raw object; raise InvalidSpec that names the invalid field.

        `state` is the stored state, which edits of an active job are checked against; None for a new job.
        """

    def load_state(self, raw: Mapping[str, Any]) -> EngineState | None:
        """Return the stored state of a raw object, or the one that the status of another operator implies."""
        status = raw_status(raw)
        if (state := load_state(status)) is not None or not status:
            return state
        return self.adopt_status(status, read_metadata(raw).creation_timestamp)

    def adopt_status(self, status: Mapping[str, Any], created_at: datetime) -> EngineState | None:
        """Return the state of a job that another operator ran; None if it did not start the job."""
        return None

    def render_status(self, status: JobStatusUpdate, previous: Mapping[str, Any], job: Job) -> dict[str, Any]:
        """Return the complete new raw status, with the condition history of the previous status.

        The default is that of a kind whose `status_type` is StandardJobStatus.
        """
        return render_standard_status(status, previous, job)

    def add_validation_error(
        self, problem: InvalidSpec, previous: Mapping[str, Any], now: datetime, observed_generation: int = 0
    ) -> dict[str, Any]:
        """Return the previous raw status, engine state included, with the validation error."""
        return add_invalid_phase(problem, previous, now, observed_generation)

    def has_validation_error(self, status: Mapping[str, Any]) -> bool:
        """Return whether a raw status reports a validation error; it is rewritten once the object is valid."""
        return has_invalid_phase(status)


def required_crds(frontend: Frontend) -> list[dict[str, Any]]:
    """Return the CustomResourceDefinitions of a kind and of its scale plans."""
    return [frontend.crd(), *([frontend.plan_frontend.crd()] if frontend.plan_frontend is not None else [])]
