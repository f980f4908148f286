"""PaddleJob of batch.paddlepaddle.org/v1: from a raw object to a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.status import is_rejected_status, render_rejection
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.paddle_batch.ports import first_port_by_role
from pliant.frontends.paddle_batch.replica_groups import (
    ELASTIC_SERVER_OPTION,
    BatchPaddleJobContext,
    build_groups,
    spec_warnings,
)
from pliant.frontends.paddle_batch.status import render_status, state_from_external_status
from pliant.frontends.paddle_batch.types import (
    MAX_REPLICAS,
    WORKER,
    BatchPaddleCleanPolicy,
    BatchPaddleJobSpec,
    BatchPaddleJobSpecSchema,
    BatchPaddleJobStatus,
)
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import decode
from pliant.frontends.spec.metadata import owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import check_pod_names
from pliant.frontends.spec.pod_templates import check_templates_unchanged
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, JobKey, Naming, ReplicaGroup, ResizeMode
from pliant.model.state import EngineState, JobPhase

KIND = CustomKind(
    group="batch.paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    plural="paddlejobs",
    description="A training job written with Paddle: workers alone, or with parameter servers.",
    short_names=("pdj",),
    spec_type=BatchPaddleJobSpecSchema,
    status_type=BatchPaddleJobStatus,
    printer_columns=(
        PrinterColumn(name="Status", type="string", json_path=".status.phase"),
        PrinterColumn(name="Mode", type="string", json_path=".status.mode"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Reason", type="string", json_path=".status.message", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.worker.replicas",
        status_path=".status.worker.replicas",
        selector_path=".status.worker.selector",
    ),
)
POD_NAMING = Naming(subdomain="{pod}", labels={"paddle-res-name": "{pod}", "paddle-res-type": "{group}"})

_DELETES_ALL_PODS = {
    None: (False, True),
    BatchPaddleCleanPolicy.ALWAYS: (True, True),
    BatchPaddleCleanPolicy.NEVER: (False, False),
    BatchPaddleCleanPolicy.ON_FAILURE: (True, False),
    BatchPaddleCleanPolicy.ON_COMPLETION: (False, True),
}
"""Whether all pods go when the job has failed, and when it is complete."""


class BatchPaddleJobFrontend(RenderingFrontend):
    """The front end of PaddleJob of batch.paddlepaddle.org."""

    renderer = StatusRenderer(render=render_status, render_rejection=render_rejection, is_rejected=is_rejected_status)
    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    run_policy_path = "spec"

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return build_crd(KIND)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec = _validate_spec(decode(BatchPaddleJobSpec, raw.get("spec"), "spec"))
        status = raw_status(raw)
        state = load_state(status) or state_from_external_status(status, metadata.creation_timestamp)
        ports = first_port_by_role(spec.intranet, metadata.annotations, metadata.uid)
        is_resting = state is not None and state.phase is JobPhase.SUSPENDED
        plan = BatchPaddleJobContext.from_spec(spec, metadata.annotations, ports, is_suspended=is_resting)
        groups = with_scaling_annotations(build_groups(plan), metadata.annotations)
        _check_groups(groups, metadata.key, state, is_suspended=spec.suspend)
        policy = spec.scheduling_policy
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels=metadata.labels,
            naming=POD_NAMING,
            frameworks=("paddle",),
            framework_options=_framework_options(plan, groups),
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=_clean_pod_policy(spec.clean_pod_policy, state),
            priority_class=(policy.priority_class if policy else "") or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            scalable_group=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=spec.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            end_request=parse_end_request(metadata.annotations),
            managed_by=spec.managed_by,
            warnings=spec_warnings(plan),
            state=state,
        )


def _validate_spec(spec: BatchPaddleJobSpec) -> BatchPaddleJobSpec:
    """The spec, if it asks for nothing that cannot be given."""
    if spec.sample_set_ref:
        raise InvalidSpec("spec.sampleSetRef", "is not served: mount the volume in the templates instead")
    if not spec.roles:
        raise InvalidSpec("spec.worker", "is required")
    sizes = [1 if role.replicas is None else role.replicas for role in spec.roles.values()]
    if (number := sum(sizes)) > MAX_REPLICAS:
        raise InvalidSpec("spec", f"there are {number} members, at most {MAX_REPLICAS} are possible in one job")
    return spec


def _check_groups(
    groups: tuple[ReplicaGroup, ...], job_key: JobKey, state: EngineState | None, *, is_suspended: bool
) -> None:
    """Raise InvalidSpec for groups that cannot be: a new job's beyond their bounds, other ones under way.

    A job under way keeps to its bounds, whatever size is asked for: a slip of the hand must not stop its training.
    """
    for group in groups if state is None else ():
        if group.size < group.min_size or (group.max_size is not None and group.size > group.max_size):
            bounds = f"between requests and limits, {group.min_size} to {group.max_size}"
            raise InvalidSpec(f"spec.{group.name}.replicas", f"must be {bounds}, got {group.size}")
    if not is_suspended:
        check_templates_unchanged(groups, state, "spec")
    check_pod_names(job_key, {each.name: max(each.size, each.max_size or 0) for each in groups}, "spec", POD_NAMING)


def _framework_options(context: BatchPaddleJobContext, groups: tuple[ReplicaGroup, ...]) -> dict[str, Any]:
    """What Paddle is told beside where everybody is; only those who come and go meet at an etcd."""
    joins = any(group.name == WORKER and group.resize_mode is ResizeMode.JOIN for group in groups)
    options = {"with_gloo": context.spec.with_gloo, ELASTIC_SERVER_OPTION: context.elastic_server if joins else ""}
    return {name: value for name, value in options.items() if value}


def _clean_pod_policy(policy: BatchPaddleCleanPolicy | None, state: EngineState | None) -> CleanPodPolicy:
    """What goes at the end: whoever still runs, for nobody; and all others, if the policy says so."""
    end = (state.outcome.phase if state.outcome else state.phase) if state else None
    when_failed, when_complete = _DELETES_ALL_PODS[policy]
    is_cleared = when_complete if end is JobPhase.SUCCEED else when_failed
    return CleanPodPolicy.ALL if end is not None and end.is_final and is_cleared else CleanPodPolicy.RUNNING
