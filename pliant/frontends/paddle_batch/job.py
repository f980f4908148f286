"""PaddleJob of batch.paddlepaddle.org/v1: from a raw object to a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob_status import is_rejected_status, rejected_status
from pliant.frontends.crd import Column, CustomKind, ScalePaths, custom_resource_definition
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import owner_of, read_metadata
from pliant.frontends.naming import check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.paddle_batch.network import first_ports
from pliant.frontends.paddle_batch.roles import MEETING, Plan, groups_of, warnings_of
from pliant.frontends.paddle_batch.status import inherited, rendered_status
from pliant.frontends.paddle_batch.types import (
    MOST_MEMBERS,
    WORKER,
    CleanPods,
    PaddleJobSpec,
    PaddleJobStatus,
    Spec,
)
from pliant.frontends.reading import read
from pliant.frontends.scaling import autoscaling_in, scaled_by
from pliant.frontends.templates import check_unchanged
from pliant.frontends.words import Spoken, Words
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, JobKey, Naming, Resize
from pliant.model.state import EngineState, Phase

KIND = CustomKind(
    group="batch.paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    plural="paddlejobs",
    description="A training job written with Paddle: workers alone, or with parameter servers.",
    short_names=("pdj",),
    spec=Spec,
    status=PaddleJobStatus,
    columns=(
        Column(name="Status", type="string", path=".status.phase"),
        Column(name="Mode", type="string", path=".status.mode"),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
        Column(name="Reason", type="string", path=".status.message", priority=1),
    ),
    scale=ScalePaths(
        spec=".spec.worker.replicas", status=".status.worker.replicas", selector=".status.worker.selector"
    ),
)
NAMING = Naming(subdomain="{pod}", labels={"paddle-res-name": "{pod}", "paddle-res-type": "{group}"})

_CLEARED = {
    None: (False, True),
    CleanPods.ALWAYS: (True, True),
    CleanPods.NEVER: (False, False),
    CleanPods.ON_FAILURE: (True, False),
    CleanPods.ON_COMPLETION: (False, True),
}
"""Whether all pods go when the job has failed, and when it is complete."""


class PaddleJob(Spoken):
    """The front end of PaddleJob of batch.paddlepaddle.org."""

    words = Words(rendered=rendered_status, rejected=rejected_status, is_rejected=is_rejected_status)
    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    policy_field = "spec"

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return custom_resource_definition(KIND)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec = _checked(read(PaddleJobSpec, raw.get("spec"), "spec"))
        status = status_in(raw)
        state = remembered(status) or inherited(status, metadata.creation_timestamp)
        ports = first_ports(spec.intranet, metadata.annotations, metadata.uid)
        is_resting = state is not None and state.phase is Phase.SUSPENDED
        plan = Plan.of(spec, metadata.annotations, ports, is_resting=is_resting)
        groups = scaled_by(groups_of(plan), metadata.annotations)
        _check_groups(groups, metadata.key, state, is_resting=spec.suspend)
        policy = spec.scheduling_policy
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels=metadata.labels,
            naming=NAMING,
            frameworks=("paddle",),
            options=_options(plan, groups),
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean=_clean(spec.clean_pod_policy, state),
            priority=(policy.priority_class if policy else "") or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            elastic=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=spec.suspend,
            autoscaling=autoscaling_in(metadata.annotations),
            order=order_in(metadata.annotations),
            managed_by=spec.managed_by,
            warnings=warnings_of(plan),
            state=state,
        )


def _checked(spec: PaddleJobSpec) -> PaddleJobSpec:
    """The spec, if it asks for nothing that cannot be given."""
    if spec.sample_set_ref:
        raise InvalidSpec("spec.sampleSetRef", "is not served: mount the volume in the templates instead")
    if not spec.roles:
        raise InvalidSpec("spec.worker", "is required")
    sizes = [1 if role.replicas is None else role.replicas for role in spec.roles.values()]
    if (number := sum(sizes)) > MOST_MEMBERS:
        raise InvalidSpec("spec", f"there are {number} members, at most {MOST_MEMBERS} are possible in one job")
    return spec


def _check_groups(groups: tuple[Group, ...], key: JobKey, state: EngineState | None, *, is_resting: bool) -> None:
    """Raise InvalidSpec for groups that cannot be: a new job's beyond their bounds, other ones under way.

    A job under way keeps to its bounds, whatever size is asked for: a slip of the hand must not stop its training.
    """
    for group in groups if state is None else ():
        if group.size < group.least or (group.most is not None and group.size > group.most):
            bounds = f"between requests and limits, {group.least} to {group.most}"
            raise InvalidSpec(f"spec.{group.name}.replicas", f"must be {bounds}, got {group.size}")
    if not is_resting:
        check_unchanged(groups, state, "spec")
    check_member_names(key, {each.name: max(each.size, each.most or 0) for each in groups}, "spec", NAMING)


def _options(plan: Plan, groups: tuple[Group, ...]) -> dict[str, Any]:
    """What Paddle is told beside where everybody is; only those who come and go meet at an etcd."""
    joins = any(group.name == WORKER and group.resize is Resize.JOIN for group in groups)
    options = {"with_gloo": plan.spec.with_gloo, MEETING: plan.meeting if joins else ""}
    return {name: value for name, value in options.items() if value}


def _clean(policy: CleanPods | None, state: EngineState | None) -> CleanPolicy:
    """What goes at the end: whoever still runs, for nobody; and all others, if the policy says so."""
    end = (state.verdict.phase if state.verdict else state.phase) if state else None
    when_failed, when_complete = _CLEARED[policy]
    is_cleared = when_complete if end is Phase.SUCCEED else when_failed
    return CleanPolicy.ALL if end is not None and end.is_final and is_cleared else CleanPolicy.RUNNING
