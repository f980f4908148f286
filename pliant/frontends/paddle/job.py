"""PaddleJob of paddlepaddle.org/v1: from a raw object to a job, and back to its status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import Column, CustomKind, ScalePaths, custom_resource_definition
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import Metadata, owner_of, read_metadata
from pliant.frontends.naming import check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.paddle.roles import bounds_of, groups_of, largest, servers_of
from pliant.frontends.paddle.schema import loosened
from pliant.frontends.paddle.spelling import number_in, read_spelled
from pliant.frontends.paddle.status import inherited, is_rejected_status, rejected_status, rendered_status
from pliant.frontends.paddle.templates import TRAINER, Plan, check_volumes
from pliant.frontends.paddle.types import PaddleJobSpec, PaddleJobStatus
from pliant.frontends.paddle.variables import trainer_of
from pliant.frontends.reading import not_one_of, quoted
from pliant.frontends.scaling import autoscaling_in, scaled_by
from pliant.frontends.spans import span
from pliant.frontends.templates import check_unchanged
from pliant.frontends.words import Spoken, Words
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, Naming
from pliant.model.state import EngineState

DISCOVERY = "pliant/discovery"
"""Who tells members of each other: `names`, which we do, or `image`, whose script asks the API."""

KIND = CustomKind(
    group="paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    plural="paddlejobs",
    description="Parameter servers and trainers written with Paddle.",
    short_names=("pj",),
    spec=PaddleJobSpec,
    status=PaddleJobStatus,
    columns=(
        Column(name="Phase", type="string", path=".status.phase"),
        Column(name="Ready", type="string", path=".status.ready", description="Members that run, of all."),
        Column(name="Trainers", type="integer", path=".status.replicas"),
        Column(name="Restarts", type="integer", path=".status.restarts"),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
        Column(name="Reason", type="string", path=".status.reason", priority=1),
    ),
    scale=ScalePaths(spec=".spec.trainer.instances", status=".status.replicas", selector=".status.selector"),
)


ELDER = replace(
    KIND,
    kind="TrainingJob",
    plural="trainingjobs",
    versions=("v1alpha1",),
    short_names=("tj",),
    description="The elder name of PaddleJob, with the same fields.",
)


class PaddleJob(Spoken):
    """The front end of PaddleJob of paddlepaddle.org."""

    words = Words(
        rendered=lambda status, _, job: rendered_status(status, job),
        rejected=rejected_status,
        is_rejected=is_rejected_status,
    )
    custom_kind = KIND
    group = KIND.group
    version = KIND.version
    policy_field = "spec"

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
        return loosened(custom_resource_definition(self.custom_kind))

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec, warnings = read_spelled(PaddleJobSpec, raw.get("spec"), "spec")
        status = status_in(raw)
        state = remembered(status)
        plan = _plan(metadata, spec, warnings)
        groups = scaled_by(groups_of(plan, state), metadata.annotations)
        if not spec.suspend:
            _check_unchanged(groups, state)
        naming = Naming(labels={"paddle-job-name": "{job}"})
        check_member_names(metadata.key, largest(groups), "spec", naming)
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, self.custom_kind),
            groups=groups,
            labels=metadata.labels,
            naming=naming,
            frameworks=("paddle",),
            options={"fluid": True},
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean=CleanPolicy.RUNNING,
            is_fault_tolerant=bool(spec.fault_tolerant),
            is_suspended=spec.suspend,
            autoscaling=autoscaling_in(metadata.annotations),
            time_limit=_time_limit(spec),
            is_limited_from_start=True,
            order=order_in(metadata.annotations),
            managed_by=spec.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            elastic=TRAINER,
            warnings=(*warnings, *bounds_of(plan).warnings, *_missed(plan)),
            state=state or inherited(status, metadata.creation_timestamp),
        )


class TrainingJob(PaddleJob):
    """The front end of TrainingJob of paddlepaddle.org: what PaddleJob was called before."""

    custom_kind = ELDER


def _plan(metadata: Metadata, spec: PaddleJobSpec, warnings: Iterable[str]) -> Plan:
    if not trainer_of(spec).entrypoint.strip():
        misspelt = [each for each in warnings if each.endswith("did you mean entrypoint?")]
        raise InvalidSpec(
            "spec.trainer.entrypoint", "; ".join(["is required: it is what trainers run", *misspelt])
        )
    check_volumes(spec)
    word = metadata.annotations.get(DISCOVERY, "").strip().lower()
    if word not in ("", "names", "image"):
        raise InvalidSpec(f"metadata.annotations.{DISCOVERY}", not_one_of(word, ["names", "image"]))
    # The master of a fault-tolerant job is a program of the image, and so is what speaks to it.
    asks_image = word == "image" or (not word and bool(spec.fault_tolerant))
    return Plan(job=metadata.name, spec=spec, asks_image=asks_image)


def _time_limit(spec: PaddleJobSpec) -> timedelta | None:
    walltime = spec.annotations.get("walltime")
    if walltime in (None, "", "null"):
        return None
    return span(number_in(walltime, "spec.annotations.walltime", "a number of seconds")) or None


def _missed(plan: Plan) -> Iterator[str]:
    """What its author may have counted on, in vain."""
    spec, bounds = plan.spec, bounds_of(plan)
    servers = spec.pserver.min_instance if spec.pserver else 0
    if servers and not servers_of(plan):
        yield f"spec.pserver: there are no servers in a job that is local or uses nccl, not {servers}"
    asked = trainer_of(spec).instances
    if asked is not None and not bounds.is_elastic and asked != bounds.least:
        yield f"spec.trainer.instances ({asked}) is not followed: the bounds leave room for {bounds.least} alone"
    if spec.frame_work.get("name") not in (None, "", "paddle"):
        yield f"spec.frame_work.name: {quoted(spec.frame_work['name'])} is told what programs for Paddle are told"


def _check_unchanged(groups: tuple[Group, ...], state: EngineState | None) -> None:
    """Raise InvalidSpec if a job under way got other roles or programs: its members would no longer be alike."""
    try:
        check_unchanged(groups, state, "spec")
    except InvalidSpec as problem:
        raise InvalidSpec(problem.field.removesuffix(".template"), problem.problem) from None
