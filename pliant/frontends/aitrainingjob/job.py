"""AITrainingJob (elasticdeeplearning.ai/v1): our own general kind, and everything its original accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.status import (
    is_rejected_status,
    render_rejection,
    render_status,
    state_from_external_status,
)
from pliant.frontends.aitrainingjob.types import (
    MAX_REPLICAS,
    AITrainingElasticSpec,
    AITrainingJobSpec,
    AITrainingJobSpecSchema,
    AITrainingJobStatus,
    AITrainingReplicaSpec,
    EdlPolicy,
)
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import decode, invalid_choice_message, quote_json
from pliant.frontends.spec.metadata import owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import check_pod_names
from pliant.frontends.spec.pod_templates import check_templates_unchanged, hash_template, inspect_pod_template
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, ReplicaGroup, RestartRule, RestartScope
from pliant.model.state import SizeRequester

KIND = CustomKind(
    group="elasticdeeplearning.ai",
    version="v1",
    kind="AITrainingJob",
    plural="aitrainingjobs",
    description="A training job: groups of pods that find each other, are restarted together and end together.",
    short_names=("aitj",),
    spec_type=AITrainingJobSpecSchema,
    status_type=AITrainingJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(
            name="Ready", type="string", json_path=".status.ready", description="Running members of all wanted."
        ),
        PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Reason", type="string", json_path=".status.message", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.elastic.replicas", status_path=".status.replicas", selector_path=".status.selector"
    ),
)

MAIN_CONTAINER_PREFIX = "aitj-"
"""Marks the containers that speak for a pod and the ports that are published."""

_EXIT_CODE_PATTERN = re.compile(r"[0-9]{1,9}")


class AITrainingJobFrontend(RenderingFrontend):
    """The front end of AITrainingJob."""

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
        spec = _validate_spec(decode(AITrainingJobSpec, raw.get("spec"), "spec"))
        elastic = _choose_scalable_group(spec)
        groups = with_scaling_annotations(tuple(_build_groups(spec, elastic)), metadata.annotations)
        _check_total_replicas(groups)
        status = raw_status(raw)
        state = load_state(status)
        if not spec.suspend:
            check_templates_unchanged(groups, state, "spec.replicaSpecs")
        largest = {each.name: max(each.size, spec.replica_specs[each.name].max_replicas or 0) for each in groups}
        check_pod_names(metadata.key, largest, "spec.replicaSpecs")
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels=metadata.labels,
            frameworks=("generic", spec.framework_type.lower()) if spec.framework_type else ("generic",),
            complete_policy=EndPolicy(spec.complete_policy or EndPolicy.ALL),
            fail_policy=EndPolicy(spec.fail_policy or EndPolicy.ANY),
            clean_pod_policy=spec.clean_pod_policy or CleanPodPolicy.ALL,
            restart_exit_codes=_parse_exit_codes(spec.restarting_exit_code),
            scheduler_name=spec.scheduler_name or None,
            priority_class=spec.priority or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            scalable_group=elastic,
            is_fault_tolerant=spec.fault_tolerant,
            is_suspended=spec.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            time_limit=seconds_to_timedelta(spec.time_limit),
            start_limit=seconds_to_timedelta(spec.start_limit),
            ttl_after_finished=seconds_to_timedelta(spec.ttl_seconds_after_finished),
            end_request=parse_end_request(metadata.annotations),
            managed_by=spec.managed_by,
            state=state or state_from_external_status(status, metadata.creation_timestamp),
        )


def _validate_spec(spec: AITrainingJobSpec) -> AITrainingJobSpec:
    """The spec, if its groups make a job that can end."""
    groups = spec.replica_specs
    if not groups:
        raise InvalidSpec("spec.replicaSpecs", "needs at least one group")
    if all(replica.complete_policy is EndPolicy.NONE for replica in groups.values()):
        raise InvalidSpec("spec.replicaSpecs", "completePolicy None in every group: nothing could complete the job")
    return spec


def _check_total_replicas(groups: tuple[ReplicaGroup, ...]) -> None:
    if (number := sum(group.size for group in groups)) > MAX_REPLICAS:
        problem = f"the groups have {number} members together, at most {MAX_REPLICAS} are possible in one job"
        raise InvalidSpec("spec.replicaSpecs", problem)


def _build_groups(spec: AITrainingJobSpec, scalable_group: str) -> Iterator[ReplicaGroup]:
    """The groups in the order they are written."""
    asked = spec.elastic.replicas if spec.elastic else None
    for name, replica in spec.replica_specs.items():
        path = f"spec.replicaSpecs.{name}"
        facts = inspect_pod_template(replica.template, f"{path}.template", MAIN_CONTAINER_PREFIX)
        yield ReplicaGroup(
            name=name,
            size=_wanted_size(path, replica, asked if name == scalable_group else None),
            min_size=replica.min_replicas or 0,
            max_size=replica.max_replicas,
            is_elastic=replica.min_replicas is not None or replica.max_replicas is not None,
            is_autoscaled=replica.edl_policy is EdlPolicy.AUTO,
            requested_sizes=_size_requests(replica, asked if name == scalable_group else None),
            template=replica.template,
            template_hash=hash_template(replica.template),
            ports=facts.ports,
            main_containers=facts.main_containers,
            complete_policy=replica.complete_policy or EndPolicy.ALL,
            fail_policy=replica.fail_policy or EndPolicy.ANY,
            restart_rule=RestartRule(
                policy=replica.restart_policy,
                scope=replica.restart_scope or RestartScope.ALL,
                limit=replica.restart_limit,
            ),
        )


def _choose_scalable_group(spec: AITrainingJobSpec) -> str:
    """The group whose size one number can set; empty if several could be meant."""
    groups = spec.replica_specs
    asked = spec.elastic or AITrainingElasticSpec()
    if asked.group and asked.group not in groups:
        raise InvalidSpec("spec.elastic.group", invalid_choice_message(asked.group, list(groups)))
    bounded = [name for name, each in groups.items() if each.min_replicas is not None or each.max_replicas is not None]
    candidates = [asked.group] if asked.group else bounded or list(groups)
    if len(candidates) == 1:
        return _require_scalable(candidates[0], spec)
    if asked.replicas is not None:
        raise InvalidSpec("spec.elastic.group", f"is required, several groups could be meant: {', '.join(candidates)}")
    return ""


def _require_scalable(group_name: str, spec: AITrainingJobSpec) -> str:
    """The group, unless it is being scaled against its own policy."""
    is_asked = spec.elastic is not None and spec.elastic.replicas is not None
    if is_asked and spec.replica_specs[group_name].edl_policy is EdlPolicy.NEVER:
        raise InvalidSpec("spec.elastic.replicas", f"{group_name} has edlPolicy Never: its size is fixed")
    return group_name


def _wanted_size(path: str, replica: AITrainingReplicaSpec, scale_replicas: int | None) -> int:
    """The wanted size: what scaling asked for, kept within the bounds, else what the group says."""
    least = replica.min_replicas or 0
    most = replica.max_replicas
    if most is not None and most < least:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({most}), got {least}")
    if replica.replicas is not None:
        if replica.replicas < least:
            raise InvalidSpec(f"{path}.replicas", f"must be at least minReplicas ({least}), got {replica.replicas}")
        if most is not None and replica.replicas > most:
            raise InvalidSpec(f"{path}.replicas", f"must be at most maxReplicas ({most}), got {replica.replicas}")
    wanted = next(size for size in (scale_replicas, replica.replicas, replica.min_replicas, 1) if size is not None)
    return max(least, wanted if most is None else min(wanted, most))


def _size_requests(replica: AITrainingReplicaSpec, scale_replicas: int | None) -> dict[SizeRequester, int]:
    """Who asks for which size."""
    every = {SizeRequester.SPEC: replica.replicas, SizeRequester.SCALE: scale_replicas}
    return {who: size for who, size in every.items() if size is not None}


def _parse_exit_codes(raw: Any) -> frozenset[int]:
    """`"137,128"`, `137` and `[137, "128"]` all name exit codes."""
    entries = raw.split(",") if isinstance(raw, str) else raw if isinstance(raw, list) else [raw]
    said = [text for entry in entries if entry is not None and (text := str(entry).strip())]
    codes = [int(text) for text in said if _EXIT_CODE_PATTERN.fullmatch(text) and int(text) <= 255]
    if len(codes) != len(said):
        raise InvalidSpec("spec.restartingExitCode", f'must list exit codes such as "137,128", got {quote_json(raw)}')
    return frozenset(codes)
