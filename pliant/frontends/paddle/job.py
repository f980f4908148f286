"""The definition of a kind that took whatever was written: it still does, and says what is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import PRESERVE_UNKNOWN_FIELDS, CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.paddle.environment import require_trainer
from pliant.frontends.paddle.lenient_decoding import decode_leniently, parse_count
from pliant.frontends.paddle.pod_templates import TRAINER, PaddleJobContext, check_volumes
from pliant.frontends.paddle.replica_groups import build_groups, max_sizes, server_count, trainer_bounds
from pliant.frontends.paddle.status import (
    is_rejected_status,
    render_rejection,
    render_status,
    state_from_external_status,
)
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleJobStatus
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import invalid_choice_message, quote_json
from pliant.frontends.spec.metadata import JobMetadata, owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import check_pod_names
from pliant.frontends.spec.pod_templates import check_templates_unchanged
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup
from pliant.model.state import EngineState

STRICT_FIELDS = frozenset({"instances"})
"""Fields of ours, which nobody has ever written in another way."""


def with_lenient_schema(crd: dict[str, Any]) -> dict[str, Any]:
    """The definition with a spec in which numbers may be text, and other spellings and fields are kept.

    So is what other operators wrote into the status: it may tell that a job has ended.
    """
    for version in crd["spec"]["versions"]:
        properties = version["schema"]["openAPIV3Schema"]["properties"]
        properties["spec"] = _lenient_schema(properties["spec"])
        properties["status"] |= PRESERVE_UNKNOWN_FIELDS
    return crd


def _lenient_schema(schema: dict[str, Any]) -> dict[str, Any]:
    match schema.get("type"):
        case "object":
            fields = {
                name: each if name in STRICT_FIELDS else _lenient_schema(each)
                for name, each in schema.get("properties", {}).items()
            }
            return {**schema, **({"properties": fields} if fields else {}), **PRESERVE_UNKNOWN_FIELDS}
        case "integer":
            return {**_description_only(schema), "x-kubernetes-int-or-string": True, "nullable": True}
        case "string":
            return {**schema, "nullable": True}
        case _:
            return {**_description_only(schema), **PRESERVE_UNKNOWN_FIELDS, "nullable": True}


def _description_only(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}


DISCOVERY_ANNOTATION = "pliant/discovery"
"""Who tells members of each other: `names`, which we do, or `image`, whose script asks the API."""

KIND = CustomKind(
    group="paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    plural="paddlejobs",
    description="Parameter servers and trainers written with Paddle.",
    short_names=("pj",),
    spec_type=PaddleJobSpec,
    status_type=PaddleJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Ready", type="string", json_path=".status.ready", description="Members that run, of all."),
        PrinterColumn(name="Trainers", type="integer", json_path=".status.replicas"),
        PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Reason", type="string", json_path=".status.reason", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.trainer.instances", status_path=".status.replicas", selector_path=".status.selector"
    ),
)


TRAINING_JOB_KIND = replace(
    KIND,
    kind="TrainingJob",
    plural="trainingjobs",
    other_versions=("v1alpha1",),
    short_names=("tj",),
    description="The elder name of PaddleJob, with the same fields.",
)


class PaddleJobFrontend(RenderingFrontend):
    """The front end of PaddleJob of paddlepaddle.org."""

    renderer = StatusRenderer(
        render=lambda status, _, job: render_status(status, job),
        render_rejection=render_rejection,
        is_rejected=is_rejected_status,
    )
    custom_kind = KIND
    group = KIND.group
    version = KIND.version
    run_policy_path = "spec"

    @property
    def kind(self) -> str:
        """The kind, `PaddleJob`."""
        return self.custom_kind.kind

    @property
    def plural(self) -> str:
        """The resource name in paths, `paddlejobs`."""
        return self.custom_kind.plural

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return with_lenient_schema(build_crd(self.custom_kind))

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec, warnings = decode_leniently(PaddleJobSpec, raw.get("spec"), "spec")
        status = raw_status(raw)
        state = load_state(status)
        plan = _build_context(metadata, spec, warnings)
        groups = with_scaling_annotations(build_groups(plan, state), metadata.annotations)
        if not spec.suspend:
            _check_roles_unchanged(groups, state)
        naming = Naming(labels={"paddle-job-name": "{job}"})
        check_pod_names(metadata.key, max_sizes(groups), "spec", naming)
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, self.custom_kind),
            groups=groups,
            labels=metadata.labels,
            naming=naming,
            frameworks=("paddle",),
            framework_options={"fluid": True},
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=CleanPodPolicy.RUNNING,
            is_fault_tolerant=bool(spec.fault_tolerant),
            is_suspended=spec.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            time_limit=_time_limit(spec),
            counts_time_from_start=True,
            end_request=parse_end_request(metadata.annotations),
            managed_by=spec.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            scalable_group=TRAINER,
            warnings=(*warnings, *trainer_bounds(plan).warnings, *_spec_warnings(plan)),
            state=state or state_from_external_status(status, metadata.creation_timestamp),
        )


class TrainingJobFrontend(PaddleJobFrontend):
    """The front end of TrainingJob of paddlepaddle.org: what PaddleJob was called before."""

    custom_kind = TRAINING_JOB_KIND


def _build_context(metadata: JobMetadata, spec: PaddleJobSpec, warnings: Iterable[str]) -> PaddleJobContext:
    if not require_trainer(spec).entrypoint.strip():
        misspelt = [each for each in warnings if each.endswith("did you mean entrypoint?")]
        raise InvalidSpec("spec.trainer.entrypoint", "; ".join(["is required: it is what trainers run", *misspelt]))
    check_volumes(spec)
    word = metadata.annotations.get(DISCOVERY_ANNOTATION, "").strip().lower()
    if word not in ("", "names", "image"):
        raise InvalidSpec(
            f"metadata.annotations.{DISCOVERY_ANNOTATION}", invalid_choice_message(word, ["names", "image"])
        )
    # The master of a fault-tolerant job is a program of the image, and so is what speaks to it.
    asks_image = word == "image" or (not word and bool(spec.fault_tolerant))
    return PaddleJobContext(job_name=metadata.name, spec=spec, uses_image_discovery=asks_image)


def _time_limit(spec: PaddleJobSpec) -> timedelta | None:
    walltime = spec.annotations.get("walltime")
    if walltime in (None, "", "null"):
        return None
    return seconds_to_timedelta(parse_count(walltime, "spec.annotations.walltime", "a number of seconds")) or None


def _spec_warnings(context: PaddleJobContext) -> Iterator[str]:
    """What its author may have counted on, in vain."""
    spec, bounds = context.spec, trainer_bounds(context)
    servers = spec.pserver.min_instance if spec.pserver else 0
    if servers and not server_count(context):
        yield f"spec.pserver: there are no servers in a job that is local or uses nccl, not {servers}"
    asked = require_trainer(spec).instances
    if asked is not None and not bounds.is_elastic and asked != bounds.min_size:
        yield f"spec.trainer.instances ({asked}) is not followed: the bounds leave room for {bounds.min_size} alone"
    if spec.frame_work.get("name") not in (None, "", "paddle"):
        yield f"spec.frame_work.name: {quote_json(spec.frame_work['name'])} is told what programs for Paddle are told"


def _check_roles_unchanged(groups: tuple[ReplicaGroup, ...], state: EngineState | None) -> None:
    """Raise InvalidSpec if a job under way got other roles or programs: its members would no longer be alike."""
    try:
        check_templates_unchanged(groups, state, "spec")
    except InvalidSpec as problem:
        raise InvalidSpec(problem.field.removesuffix(".template"), problem.problem) from None
