"""Parse an AITrainingJob of elasticdeeplearning.ai/v1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob import status
from pliant.frontends.aitrainingjob.types import (
    AITrainingElasticSpec,
    AITrainingJobSpec,
    AITrainingJobSpecSchema,
    AITrainingJobStatus,
    AITrainingReplicaSpec,
    EdlPolicy,
)
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB
from pliant.frontends.frontend import Frontend
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import abbreviate_json, decode, invalid_choice_message
from pliant.frontends.spec.metadata import (
    check_service_names,
    job_fields_from_metadata,
    parse_end_request,
    read_metadata,
    with_job_service,
)
from pliant.frontends.spec.pod_templates import (
    active_template_hashes,
    check_templates_unchanged,
    hash_template,
    inspect_pod_template,
    suspend_advice,
)
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup, RestartRule, RestartScope
from pliant.model.state import EngineState, SizeRequester

_EDIT_RULES = EditRules(run_policy_path="spec", end_time_path="status.endTime")
KIND_DEFINITION = CustomKind(
    group="elasticdeeplearning.ai",
    version="v1",
    kind="AITrainingJob",
    description="A training job that consists of groups of replicas.",
    short_names=("aitj",),
    spec_type=AITrainingJobSpecSchema,
    status_type=AITrainingJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Ready", type="string", json_path=".status.ready", description="Running/desired replicas."),
        PrinterColumn(name="Restarts", type="integer", json_path=".status.restarts"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Reason", type="string", json_path=".status.message", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.elastic.replicas", status_path=".status.replicas", selector_path=".status.selector"
    ),
    rules={
        **_EDIT_RULES.for_group_map("spec.replicaSpecs"),
        **_EDIT_RULES.for_fields("spec", ["frameworkType"]),
        **_EDIT_RULES.for_managed_by(),
    },
)

MAIN_CONTAINER_PREFIX = "aitj-"
"""The name prefix of main containers and of published ports."""

_HASH_SEPARATOR = "."
"""Separates the hash of a template from the framework, which also determines the pods."""
_EXIT_CODE_PATTERN = re.compile(r"[0-9]{1,9}")


class AITrainingJobFrontend(Frontend):
    custom_kind = KIND_DEFINITION
    render_status = staticmethod(status.render_status)
    adopt_status = staticmethod(status.adopt_external_status)
    run_policy_path = "spec"
    priority_class_path = "spec.priority"

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec = decode(AITrainingJobSpec, raw.get("spec"), "spec")
        _check_groups(spec)
        scalable_group = _choose_scalable_group(spec)
        groups = with_scaling_annotations(tuple(_build_groups(spec, scalable_group)), metadata.annotations)
        if (total := sum(group.size for group in groups)) > MAX_REPLICAS_PER_JOB:
            raise InvalidSpec(
                "spec.replicaSpecs", f"a job may have {MAX_REPLICAS_PER_JOB} replicas at most, got {total}"
            )
        if not spec.suspend:
            _check_framework_unchanged(groups, state)
            check_templates_unchanged(groups, state, "spec.replicaSpecs")
        max_sizes = {each.name: max(each.size, spec.replica_specs[each.name].max_replicas or 0) for each in groups}
        check_service_names(metadata.key, max_sizes, "spec.replicaSpecs")
        fields = job_fields_from_metadata(raw, metadata, KIND_DEFINITION)
        if spec.elastic is not None:
            fields |= _elastic_fields(spec.elastic)
        return Job(
            **fields,
            groups=groups,
            naming=with_job_service(Naming(), groups, metadata, state, {groups[0].name: 1}, is_default=False),
            # Where both define a variable, such as TRAINER_PORTS_NUM, that of every AITrainingJob wins.
            frameworks=(spec.framework_type.lower(), "generic") if spec.framework_type else ("generic",),
            complete_policy=EndPolicy(spec.complete_policy or EndPolicy.ALL),
            fail_policy=EndPolicy(spec.fail_policy or EndPolicy.ANY),
            clean_pod_policy=spec.clean_pod_policy or CleanPodPolicy.ALL,
            restart_exit_codes=_parse_exit_codes(spec.restarting_exit_code),
            scheduler_name=spec.scheduler_name or None,
            priority_class=spec.priority or None,
            scalable_group=scalable_group,
            is_fault_tolerant=spec.fault_tolerant,
            is_suspended=spec.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            time_limit=seconds_to_timedelta(spec.time_limit),
            start_limit=seconds_to_timedelta(spec.start_limit),
            ttl_after_finished=seconds_to_timedelta(spec.ttl_seconds_after_finished),
            managed_by=spec.managed_by,
            end_request=parse_end_request(metadata.annotations),
        )


def _elastic_fields(elastic: AITrainingElasticSpec) -> dict[str, Any]:
    """Return the fields of a Job that the spec sets; it has precedence over annotations."""
    grace = elastic.checkpoint_grace
    fields: dict[str, Any] = {} if grace is None else {"checkpoint_grace": timedelta(seconds=grace)}
    fields |= {"has_disruption_budget": True} if elastic.disruption_budget else {}
    return fields | ({"has_membership_file": True} if elastic.membership_file else {})


def _check_groups(spec: AITrainingJobSpec) -> None:
    if not spec.replica_specs:
        raise InvalidSpec("spec.replicaSpecs", "needs at least one group")
    if all(replica.complete_policy is EndPolicy.NONE for replica in spec.replica_specs.values()):
        raise InvalidSpec("spec.replicaSpecs", "at least one group must have a completePolicy other than None")


def _build_groups(spec: AITrainingJobSpec, scalable_group: str) -> Iterator[ReplicaGroup]:
    for name, replica in spec.replica_specs.items():
        path = f"spec.replicaSpecs.{name}"
        scale_replicas = spec.elastic.replicas if spec.elastic and name == scalable_group else None
        requests = {SizeRequester.SPEC: replica.replicas, SizeRequester.SCALE: scale_replicas}
        info = inspect_pod_template(replica.template, f"{path}.template", MAIN_CONTAINER_PREFIX)
        yield ReplicaGroup(
            name=name,
            path=path,
            size=_desired_size(path, replica, scale_replicas),
            min_size=replica.min_replicas or 0,
            max_size=replica.max_replicas,
            is_elastic=replica.min_replicas is not None or replica.max_replicas is not None,
            is_autoscaled=replica.edl_policy is EdlPolicy.AUTO,
            requested_sizes={requester: size for requester, size in requests.items() if size is not None},
            template=replica.template,
            template_hash=f"{hash_template(replica.template)}{_HASH_SEPARATOR}{spec.framework_type.lower()}",
            ports=info.ports,
            main_containers=info.main_containers,
            complete_policy=replica.complete_policy or EndPolicy.ALL,
            fail_policy=replica.fail_policy or EndPolicy.ANY,
            restart_rule=RestartRule(
                policy=replica.restart_policy,
                scope=replica.restart_scope or RestartScope.ALL,
                limit=replica.restart_limit,
            ),
        )


def _check_framework_unchanged(groups: Iterable[ReplicaGroup], state: EngineState | None) -> None:
    """Raise InvalidSpec if the framework of an active job changed: new replicas would not find the others."""
    active = active_template_hashes(state)
    for group in groups:
        _, separator, framework = active.get(group.name, "").partition(_HASH_SEPARATOR)
        if separator and framework != group.template_hash.partition(_HASH_SEPARATOR)[2]:
            raise InvalidSpec("spec.frameworkType", f"cannot change {suspend_advice('spec')}")


def _choose_scalable_group(spec: AITrainingJobSpec) -> str:
    """Return the group that `kubectl scale` resizes; empty if there are several candidates and none is requested."""
    groups = spec.replica_specs
    elastic = spec.elastic or AITrainingElasticSpec()
    if elastic.group and elastic.group not in groups:
        raise InvalidSpec("spec.elastic.group", invalid_choice_message(elastic.group, list(groups)))
    bounded = [name for name, each in groups.items() if each.min_replicas is not None or each.max_replicas is not None]
    candidates = [elastic.group] if elastic.group else bounded or list(groups)
    if len(candidates) > 1:
        if elastic.replicas is not None:
            names = ", ".join(candidates)
            raise InvalidSpec("spec.elastic.group", f"is required because several groups can be scaled: {names}")
        return ""
    name = candidates[0]
    if elastic.replicas is not None and groups[name].edl_policy is EdlPolicy.NEVER:
        raise InvalidSpec("spec.elastic.replicas", f"{name} has edlPolicy Never: its size is fixed")
    return name


def _desired_size(path: str, replica: AITrainingReplicaSpec, scale_replicas: int | None) -> int:
    """Return the size that `kubectl scale` or the group requests, within the bounds of the group."""
    min_size, max_size = replica.min_replicas or 0, replica.max_replicas
    if max_size is not None and max_size < min_size:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({max_size}), got {min_size}")
    if replica.replicas is not None:
        if replica.replicas < min_size:
            raise InvalidSpec(f"{path}.replicas", f"must be at least minReplicas ({min_size}), got {replica.replicas}")
        if max_size is not None and replica.replicas > max_size:
            raise InvalidSpec(f"{path}.replicas", f"must be at most maxReplicas ({max_size}), got {replica.replicas}")
    desired = next(size for size in (scale_replicas, replica.replicas, replica.min_replicas, 1) if size is not None)
    return max(min_size, desired if max_size is None else min(desired, max_size))


def _parse_exit_codes(raw: Any) -> frozenset[int]:
    """Parse exit codes from `"137,128"`, `137` or `[137, "128"]`."""
    entries = raw.split(",") if isinstance(raw, str) else raw if isinstance(raw, list) else [raw]
    texts = [text for entry in entries if entry is not None and (text := str(entry).strip())]
    codes = [int(text) for text in texts if _EXIT_CODE_PATTERN.fullmatch(text) and int(text) <= 255]
    if len(codes) != len(texts):
        raise InvalidSpec(
            "spec.restartingExitCode", f'must list exit codes such as "137,128", got {abbreviate_json(raw)}'
        )
    return frozenset(codes)
