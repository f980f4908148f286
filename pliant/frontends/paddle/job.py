"""Parse PaddleJob and TrainingJob of paddlepaddle.org/v1, whose original CRDs accepted any fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import PRESERVE_UNKNOWN_FIELDS, CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.frontend import Frontend
from pliant.frontends.paddle import status
from pliant.frontends.paddle.environment import require_trainer
from pliant.frontends.paddle.lenient_decoding import UnknownField, decode_leniently, parse_count
from pliant.frontends.paddle.pod_templates import TRAINER, PaddleJobContext, check_volumes
from pliant.frontends.paddle.replica_groups import build_groups, max_sizes, server_count, trainer_bounds
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleJobStatus
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import abbreviate_json, invalid_choice_message
from pliant.frontends.spec.metadata import JobMetadata, check_service_names, job_fields_from_metadata, read_metadata
from pliant.frontends.spec.pod_templates import check_templates_unchanged
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup
from pliant.model.state import EngineState

STRICTLY_TYPED_FIELDS = frozenset({"instances", "suspend"})
"""Fields that Pliant added; they have one spelling and type only."""


def with_lenient_schema(crd: dict[str, Any]) -> dict[str, Any]:
    """Return the CRD with a spec that accepts numbers as strings and unknown fields, which are not pruned.

    The status of other operators is not pruned either: it may contain the outcome of a job.
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
                name: each if name in STRICTLY_TYPED_FIELDS else _lenient_schema(each)
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


PEER_DISCOVERY_ANNOTATION = "pliant/discovery"
"""How replicas find each other: `names` (variables of the operator) or `image` (the script of the image)."""

_EDIT_RULES = EditRules(run_policy_path="spec")
_POD_FIELDS = ("image", "schedulerName", "podGroupName", "trainer.entrypoint", "trainer.workspace")
"""Fields whose value is part of all pods or of those of the trainers, in their usual spelling."""
KIND_DEFINITION = CustomKind(
    group="paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    description="A training job that runs PaddlePaddle with parameter servers and elastic trainers.",
    short_names=("pj",),
    spec_type=PaddleJobSpec,
    status_type=PaddleJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Ready", type="string", json_path=".status.ready", description="Running/desired replicas."),
        PrinterColumn(name="Trainers", type="integer", json_path=".status.replicas"),
        PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Reason", type="string", json_path=".status.reason", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.trainer.instances", status_path=".status.replicas", selector_path=".status.selector"
    ),
    rules=_EDIT_RULES.for_fields("spec", _POD_FIELDS) | _EDIT_RULES.for_managed_by(),
)


TRAINING_JOB_KIND_DEFINITION = replace(
    KIND_DEFINITION,
    kind="TrainingJob",
    other_versions=("v1alpha1",),
    short_names=("tj",),
    description="The former name of PaddleJob, with the same fields.",
)


class PaddleJobFrontend(Frontend):
    render_status = staticmethod(status.render_status)
    add_validation_error = staticmethod(status.add_validation_error)
    has_validation_error = staticmethod(status.has_validation_error)
    adopt_status = staticmethod(status.adopt_external_status)
    custom_kind = KIND_DEFINITION
    run_policy_path = "spec"

    def crd(self) -> dict[str, Any]:
        return with_lenient_schema(build_crd(self.custom_kind))

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec, unknown_fields = decode_leniently(PaddleJobSpec, raw.get("spec"), "spec")
        context = _build_context(metadata, spec, unknown_fields)
        groups = with_scaling_annotations(build_groups(context, state), metadata.annotations)
        if not spec.suspend:
            _check_roles_unchanged(groups, state)
        naming = Naming(labels={"paddle-job-name": "{job}"})
        check_service_names(metadata.key, max_sizes(groups), "spec", naming)
        return Job(
            **job_fields_from_metadata(raw, metadata, self.custom_kind),
            groups=groups,
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
            managed_by=spec.managed_by,
            scalable_group=TRAINER,
            warnings=(*map(str, unknown_fields), *trainer_bounds(context).warnings, *_spec_warnings(context)),
        )


class TrainingJobFrontend(PaddleJobFrontend):
    """The front end of TrainingJob of paddlepaddle.org, the former name of PaddleJob."""

    custom_kind = TRAINING_JOB_KIND_DEFINITION


def _build_context(
    metadata: JobMetadata, spec: PaddleJobSpec, unknown_fields: Iterable[UnknownField]
) -> PaddleJobContext:
    if not require_trainer(spec).entrypoint.strip():
        misspelled = [str(each) for each in unknown_fields if each.suggestion == "entrypoint"]
        problem = "; ".join(["is required: it is the command of the trainers", *misspelled])
        raise InvalidSpec("spec.trainer.entrypoint", problem)
    check_volumes(spec)
    discovery = metadata.annotations.get(PEER_DISCOVERY_ANNOTATION, "").strip().lower()
    if discovery not in ("", "names", "image"):
        message = invalid_choice_message(discovery, ["names", "image"])
        raise InvalidSpec(f"metadata.annotations.{PEER_DISCOVERY_ANNOTATION}", message)
    # The master of a fault-tolerant job and its clients are programs of the image.
    uses_image = discovery == "image" or (not discovery and bool(spec.fault_tolerant))
    return PaddleJobContext(job_name=metadata.name, spec=spec, uses_image_peer_discovery=uses_image)


def _time_limit(spec: PaddleJobSpec) -> timedelta | None:
    walltime = spec.annotations.get("walltime")
    if walltime in (None, "", "null"):
        return None
    return seconds_to_timedelta(parse_count(walltime, "spec.annotations.walltime", "a number of seconds")) or None


def _spec_warnings(context: PaddleJobContext) -> Iterator[str]:
    """Yield warnings about fields that have no effect."""
    spec, bounds = context.spec, trainer_bounds(context)
    servers = spec.pserver.min_instance if spec.pserver else 0
    if servers and not server_count(context):
        yield f"spec.pserver: the {servers} servers are ignored because the job is local or uses nccl"
    instances = require_trainer(spec).instances
    if instances is not None and not bounds.is_elastic and instances != bounds.min_size:
        yield f"spec.trainer.instances ({instances}) is ignored: the bounds fix the size at {bounds.min_size}"
    if spec.frame_work.get("name") not in (None, "", "paddle"):
        name = abbreviate_json(spec.frame_work["name"])
        yield f"spec.frame_work.name: {name} is ignored; pods get the Paddle variables"


def _check_roles_unchanged(groups: tuple[ReplicaGroup, ...], state: EngineState | None) -> None:
    """Raise InvalidSpec if the roles or their settings changed while the job is active."""
    try:
        check_templates_unchanged(groups, state, "spec")
    except InvalidSpec as problem:
        raise InvalidSpec(problem.field.removesuffix(".template"), problem.problem) from None
