"""AITrainingJob (elasticdeeplearning.ai/v1): our own general kind, and everything its original accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob_status import (
    inherited,
    is_rejected_status,
    rejected_status,
    rendered_status,
)
from pliant.frontends.aitrainingjob_types import (
    MOST_MEMBERS,
    AITrainingJobSpec,
    AITrainingJobStatus,
    EdlPolicy,
    Elastic,
    ReplicaSpec,
    Spec,
)
from pliant.frontends.crd import Column, CustomKind, ScalePaths, custom_resource_definition
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import owner_of, read_metadata
from pliant.frontends.naming import check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.reading import not_one_of, quoted, read
from pliant.frontends.scaling import autoscaling_in, scaled_by
from pliant.frontends.spans import span
from pliant.frontends.templates import check_unchanged, fingerprint, template_facts
from pliant.frontends.words import Spoken, Words
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, RestartRule, RestartScope
from pliant.model.state import Requester

KIND = CustomKind(
    group="elasticdeeplearning.ai",
    version="v1",
    kind="AITrainingJob",
    plural="aitrainingjobs",
    description="A training job: groups of pods that find each other, are restarted together and end together.",
    short_names=("aitj",),
    spec=Spec,
    status=AITrainingJobStatus,
    columns=(
        Column(name="Phase", type="string", path=".status.phase"),
        Column(name="Ready", type="string", path=".status.ready", description="Running members of all wanted."),
        Column(name="Restarts", type="integer", path=".status.restarts"),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
        Column(name="Reason", type="string", path=".status.message", priority=1),
    ),
    scale=ScalePaths(spec=".spec.elastic.replicas", status=".status.replicas", selector=".status.selector"),
)

PREFIX = "aitj-"
"""Marks the containers that speak for a pod and the ports that are published."""

_EXIT_CODE = re.compile(r"[0-9]{1,9}")


class AITrainingJob(Spoken):
    """The front end of AITrainingJob."""

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
        spec = _checked(read(AITrainingJobSpec, raw.get("spec"), "spec"))
        elastic = _elastic_group(spec)
        groups = scaled_by(tuple(_groups(spec, elastic)), metadata.annotations)
        _check_number(groups)
        status = status_in(raw)
        state = remembered(status)
        if not spec.suspend:
            check_unchanged(groups, state, "spec.replicaSpecs")
        largest = {each.name: max(each.size, spec.replica_specs[each.name].max_replicas or 0) for each in groups}
        check_member_names(metadata.key, largest, "spec.replicaSpecs")
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels=metadata.labels,
            frameworks=("generic", spec.framework_type.lower()) if spec.framework_type else ("generic",),
            complete_policy=EndPolicy(spec.complete_policy or EndPolicy.ALL),
            fail_policy=EndPolicy(spec.fail_policy or EndPolicy.ANY),
            clean=spec.clean_pod_policy or CleanPolicy.ALL,
            restart_exit_codes=_exit_codes(spec.restarting_exit_code),
            scheduler=spec.scheduler_name or None,
            priority=spec.priority or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            elastic=elastic,
            is_fault_tolerant=spec.fault_tolerant,
            is_suspended=spec.suspend,
            autoscaling=autoscaling_in(metadata.annotations),
            time_limit=span(spec.time_limit),
            start_limit=span(spec.start_limit),
            time_to_live=span(spec.ttl_seconds_after_finished),
            order=order_in(metadata.annotations),
            managed_by=spec.managed_by,
            state=state or inherited(status, metadata.creation_timestamp),
        )


def _checked(spec: AITrainingJobSpec) -> AITrainingJobSpec:
    """The spec, if its groups make a job that can end."""
    groups = spec.replica_specs
    if not groups:
        raise InvalidSpec("spec.replicaSpecs", "needs at least one group")
    if all(replica.complete_policy is EndPolicy.NONE for replica in groups.values()):
        raise InvalidSpec(
            "spec.replicaSpecs", "completePolicy None in every group: nothing could complete the job"
        )
    return spec


def _check_number(groups: tuple[Group, ...]) -> None:
    if (number := sum(group.size for group in groups)) > MOST_MEMBERS:
        problem = f"the groups have {number} members together, at most {MOST_MEMBERS} are possible in one job"
        raise InvalidSpec("spec.replicaSpecs", problem)


def _groups(spec: AITrainingJobSpec, elastic: str) -> Iterator[Group]:
    """The groups in the order they are written."""
    asked = spec.elastic.replicas if spec.elastic else None
    for name, replica in spec.replica_specs.items():
        path = f"spec.replicaSpecs.{name}"
        facts = template_facts(replica.template, f"{path}.template", PREFIX)
        yield Group(
            name=name,
            size=_size(path, replica, asked if name == elastic else None),
            least=replica.min_replicas or 0,
            most=replica.max_replicas,
            is_elastic=replica.min_replicas is not None or replica.max_replicas is not None,
            is_automatic=replica.edl_policy is EdlPolicy.AUTO,
            requests=_requests(replica, asked if name == elastic else None),
            template=replica.template,
            fingerprint=fingerprint(replica.template),
            ports=facts.ports,
            counted=facts.counted,
            complete_policy=replica.complete_policy or EndPolicy.ALL,
            fail_policy=replica.fail_policy or EndPolicy.ANY,
            restart=RestartRule(
                policy=replica.restart_policy,
                scope=replica.restart_scope or RestartScope.ALL,
                limit=replica.restart_limit,
            ),
        )


def _elastic_group(spec: AITrainingJobSpec) -> str:
    """The group whose size one number can set; empty if several could be meant."""
    groups = spec.replica_specs
    asked = spec.elastic or Elastic()
    if asked.group and asked.group not in groups:
        raise InvalidSpec("spec.elastic.group", not_one_of(asked.group, list(groups)))
    bounded = [
        name for name, each in groups.items() if each.min_replicas is not None or each.max_replicas is not None
    ]
    candidates = [asked.group] if asked.group else bounded or list(groups)
    if len(candidates) == 1:
        return _scalable(candidates[0], spec)
    if asked.replicas is not None:
        raise InvalidSpec(
            "spec.elastic.group", f"is required, several groups could be meant: {', '.join(candidates)}"
        )
    return ""


def _scalable(name: str, spec: AITrainingJobSpec) -> str:
    """The group, unless it is being scaled against its own policy."""
    is_asked = spec.elastic is not None and spec.elastic.replicas is not None
    if is_asked and spec.replica_specs[name].edl_policy is EdlPolicy.NEVER:
        raise InvalidSpec("spec.elastic.replicas", f"{name} has edlPolicy Never: its size is fixed")
    return name


def _size(path: str, replica: ReplicaSpec, asked: int | None) -> int:
    """The wanted size: what scaling asked for, kept within the bounds, else what the group says."""
    least = replica.min_replicas or 0
    most = replica.max_replicas
    if most is not None and most < least:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({most}), got {least}")
    if replica.replicas is not None:
        if replica.replicas < least:
            raise InvalidSpec(
                f"{path}.replicas", f"must be at least minReplicas ({least}), got {replica.replicas}"
            )
        if most is not None and replica.replicas > most:
            raise InvalidSpec(f"{path}.replicas", f"must be at most maxReplicas ({most}), got {replica.replicas}")
    wanted = next(size for size in (asked, replica.replicas, replica.min_replicas, 1) if size is not None)
    return max(least, wanted if most is None else min(wanted, most))


def _requests(replica: ReplicaSpec, asked: int | None) -> dict[Requester, int]:
    """Who asks for which size."""
    every = {Requester.SPEC: replica.replicas, Requester.SCALE: asked}
    return {who: size for who, size in every.items() if size is not None}


def _exit_codes(raw: Any) -> frozenset[int]:
    """`"137,128"`, `137` and `[137, "128"]` all name exit codes."""
    entries = raw.split(",") if isinstance(raw, str) else raw if isinstance(raw, list) else [raw]
    said = [text for entry in entries if entry is not None and (text := str(entry).strip())]
    codes = [int(text) for text in said if _EXIT_CODE.fullmatch(text) and int(text) <= 255]
    if len(codes) != len(said):
        raise InvalidSpec("spec.restartingExitCode", f'must list exit codes such as "137,128", got {quoted(raw)}')
    return frozenset(codes)
