"""Parse a PaddleJob of batch.paddlepaddle.org/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB
from pliant.frontends.frontend import Frontend
from pliant.frontends.paddle_batch import status
from pliant.frontends.paddle_batch.replica_groups import (
    ELASTIC_SERVER_OPTION,
    BatchPaddleJobContext,
    build_groups,
    first_port_by_role,
    spec_warnings,
)
from pliant.frontends.paddle_batch.types import (
    ROLES,
    WORKER,
    BatchPaddleCleanPolicy,
    BatchPaddleJobSpec,
    BatchPaddleJobSpecSchema,
    BatchPaddleJobStatus,
)
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import decode
from pliant.frontends.spec.metadata import check_service_names, job_fields_from_metadata, read_metadata
from pliant.frontends.spec.pod_templates import check_templates_unchanged
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, JobKey, Naming, ReplicaGroup, ResizeMode
from pliant.model.state import EngineState, JobPhase

_EDIT_RULES = EditRules(run_policy_path="spec")
KIND_DEFINITION = CustomKind(
    group="batch.paddlepaddle.org",
    version="v1",
    kind="PaddleJob",
    description="A training job that runs PaddlePaddle with workers and, optionally, parameter servers.",
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
    rules=_EDIT_RULES.for_group_fields("spec", ROLES) | _EDIT_RULES.for_managed_by(),
)
POD_NAMING = Naming(subdomain="{pod}", labels={"paddle-res-name": "{pod}", "paddle-res-type": "{group}"})

_DELETES_ALL_PODS = {
    None: (False, True),
    BatchPaddleCleanPolicy.ALWAYS: (True, True),
    BatchPaddleCleanPolicy.NEVER: (False, False),
    BatchPaddleCleanPolicy.ON_FAILURE: (True, False),
    BatchPaddleCleanPolicy.ON_COMPLETION: (False, True),
    BatchPaddleCleanPolicy.ON_FAILED: (False, False),
}
"""Whether the operator deletes all pods when the job has failed, and when it is complete."""


class BatchPaddleJobFrontend(Frontend):
    custom_kind = KIND_DEFINITION
    render_status = staticmethod(status.render_status)
    adopt_status = staticmethod(status.adopt_external_status)
    run_policy_path = "spec"

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec = decode(BatchPaddleJobSpec, raw.get("spec"), "spec")
        _check_spec(spec)
        ports = first_port_by_role(spec.intranet, metadata.annotations, metadata.uid)
        is_suspended = state is not None and state.phase is JobPhase.SUSPENDED
        context = BatchPaddleJobContext.from_spec(spec, metadata.annotations, ports, is_suspended=is_suspended)
        groups = with_scaling_annotations(build_groups(context), metadata.annotations)
        _check_groups(groups, metadata.key, state, is_suspended=spec.suspend)
        policy = spec.scheduling_policy
        return Job(
            **job_fields_from_metadata(raw, metadata, KIND_DEFINITION),
            groups=groups,
            naming=POD_NAMING,
            frameworks=("paddle",),
            framework_options=_framework_options(context, groups),
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=_clean_pod_policy(spec.clean_pod_policy, state),
            priority_class=(policy.priority_class if policy else "") or None,
            scalable_group=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=spec.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            managed_by=spec.managed_by,
            warnings=spec_warnings(context),
        )


def _check_spec(spec: BatchPaddleJobSpec) -> None:
    if spec.sample_set_ref:
        raise InvalidSpec("spec.sampleSetRef", "is not supported: mount the volume in the templates instead")
    if not spec.roles:
        raise InvalidSpec("spec.worker", "is required")
    if (
        total := sum(1 if role.replicas is None else role.replicas for role in spec.roles.values())
    ) > MAX_REPLICAS_PER_JOB:
        raise InvalidSpec("spec", f"a job may have {MAX_REPLICAS_PER_JOB} replicas at most, got {total}")


def _check_groups(
    groups: tuple[ReplicaGroup, ...], job_key: JobKey, state: EngineState | None, *, is_suspended: bool
) -> None:
    """Raise InvalidSpec if a new job has a size beyond its bounds, or if the templates of an active job changed.

    The operator limits the size of an active job to its bounds instead, so that an edit does not stop its training.
    """
    for group in groups if state is None else ():
        if group.size < group.min_size or (group.max_size is not None and group.size > group.max_size):
            bounds = f"between requests and limits, {group.min_size} to {group.max_size}"
            raise InvalidSpec(f"spec.{group.name}.replicas", f"must be {bounds}, got {group.size}")
    if not is_suspended:
        check_templates_unchanged(groups, state, "spec")
    check_service_names(job_key, {each.name: max(each.size, each.max_size or 0) for each in groups}, "spec", POD_NAMING)


def _framework_options(context: BatchPaddleJobContext, groups: tuple[ReplicaGroup, ...]) -> dict[str, Any]:
    """Return the options of the framework. Only workers that join a running job use the etcd server."""
    joins = any(group.name == WORKER and group.resize_mode is ResizeMode.JOIN for group in groups)
    options = {"with_gloo": context.spec.with_gloo, ELASTIC_SERVER_OPTION: context.elastic_server if joins else ""}
    return {name: value for name, value in options.items() if value}


def _clean_pod_policy(policy: BatchPaddleCleanPolicy | None, state: EngineState | None) -> CleanPodPolicy:
    """Return which pods to delete at the end: always the running ones, and all others depending on the policy."""
    end = (state.outcome.phase if state.outcome else state.phase) if state else None
    when_failed, when_complete = _DELETES_ALL_PODS[policy]
    is_cleared = when_complete if end is JobPhase.SUCCEED else when_failed
    return CleanPodPolicy.ALL if end is not None and end.is_final and is_cleared else CleanPodPolicy.RUNNING
