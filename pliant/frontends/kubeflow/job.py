"""The base class of the front ends of kubeflow.org/v1, which parses their objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.fields import (
    ENGINE_RESTART_POLICIES,
    MAX_REPLICAS_PER_JOB,
    RETRYABLE_EXIT_CODES,
    ReplicaRestartPolicy,
)
from pliant.frontends.frontend import Frontend
from pliant.frontends.kubeflow import status
from pliant.frontends.kubeflow.types import KubeflowJobStatus, KubeflowReplicaSpec, KubeflowRunPolicy
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import decode, invalid_choice_message, list_ignored_fields
from pliant.frontends.spec.metadata import (
    check_service_names,
    job_fields_from_metadata,
    read_metadata,
    with_job_service,
)
from pliant.frontends.spec.pod_templates import check_templates_unchanged, hash_template, inspect_pod_template
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, Port, ReplicaGroup, RestartRule, RestartScope
from pliant.model.state import EngineState, SizeRequester

API_GROUP, API_VERSION = "kubeflow.org", "v1"
LABEL_PREFIX = "training.kubeflow.org"
KUBEFLOW_MANAGED_BY_VALUE = "kubeflow.org/training-operator"
"""The default value of `managedBy` in Kubeflow; Pliant manages these jobs."""

PRINTER_COLUMNS = (
    PrinterColumn(name="State", type="string", json_path=".status.conditions[-1:].type"),
    PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    PrinterColumn(name="Reason", type="string", json_path=".status.conditions[-1:].message", priority=1),
)


_EDIT_RULES = EditRules(run_policy_path="spec.runPolicy", other_managed_by_values=[KUBEFLOW_MANAGED_BY_VALUE])


def define_kind(
    kind: str,
    spec_type: type,
    description: str,
    replica_specs_field: str,
    *,
    is_scalable: bool = False,
    other_versions: tuple[str, ...] = (),
) -> CustomKind:
    """Return the definition of a kind; if it is scalable, `kubectl scale` resizes the workers."""
    scale_paths = CrdScalePaths(
        spec_path=f".spec.{replica_specs_field}.Worker.replicas",
        status_path=".status.replicaStatuses.Worker.active",
        selector_path=".status.replicaStatuses.Worker.selector",
    )
    return CustomKind(
        group=API_GROUP,
        version=API_VERSION,
        other_versions=other_versions,
        kind=kind,
        description=description,
        spec_type=spec_type,
        status_type=KubeflowJobStatus,
        printer_columns=PRINTER_COLUMNS,
        scale_paths=scale_paths if is_scalable else None,
        rules=_EDIT_RULES.for_group_map(f"spec.{replica_specs_field}", ignores_case=True)
        | _EDIT_RULES.for_managed_by(),
    )


class GroupEndPolicies(NamedTuple):
    """Which replicas complete a group, and which fail it."""

    complete: EndPolicy = EndPolicy.NONE
    fail: EndPolicy = EndPolicy.ANY


class ReplicaBounds(NamedTuple):
    """The minimum and maximum size of an elastic group; None means unset."""

    min_size: int | None
    max_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeflowKind:
    """The properties in which the kinds differ."""

    framework: str
    replica_specs_field: str
    roles: tuple[str, ...]
    """The replica types of the kind. The first one that a job has is its leader."""
    main_container: str
    """The container that determines the outcome of a pod."""
    default_port: Port
    default_restart_policy: ReplicaRestartPolicy = ReplicaRestartPolicy.NEVER
    default_clean_pod_policy: CleanPodPolicy = CleanPodPolicy.NONE
    single_replica_roles: frozenset[str] = frozenset()
    """Roles that have exactly one replica."""
    required_role: str = ""
    pod_overrides: Mapping[str, str] = field(default_factory=dict)
    """Pod name formats by role in lower case, where they differ from the default."""


class KubeflowJobFrontend(Frontend):
    """The base class of the front ends of kubeflow.org/v1."""

    render_status = staticmethod(status.render_status)
    add_validation_error = staticmethod(status.add_validation_error)
    has_validation_error = staticmethod(status.has_validation_error)
    adopt_status = staticmethod(status.adopt_external_status)
    kubeflow_kind: KubeflowKind
    run_policy_path = "spec.runPolicy"
    priority_class_path = "spec.runPolicy.schedulingPolicy.priorityClass"

    def end_policies(self, spec: Any, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """Return which replicas of a role decide the outcome of the job; by default the first one of the leader."""
        return GroupEndPolicies(EndPolicy.RANK0) if role == roles[0] else GroupEndPolicies()

    def check_roles(self, roles: tuple[str, ...]) -> None:
        """Raise InvalidSpec if a job cannot have all of these roles."""

    def pod_template(self, spec: Any, role: str, replica: KubeflowReplicaSpec) -> Mapping[str, Any]:
        """Return the pod template of a role."""
        return replica.template

    def main_container(self, spec: Any) -> str:
        """Return the container that determines the outcome of a pod."""
        return self.kubeflow_kind.main_container

    def framework_options(self, spec: Any) -> Mapping[str, Any]:
        """Return the options of the framework."""
        return {}

    def replica_bounds(self, spec: Any, role: str) -> ReplicaBounds | None:
        """Return the bounds of an elastic role, or None if the role is not elastic."""
        return None

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec = decode(self.custom_kind.spec_type, raw.get("spec"), "spec")
        run: KubeflowRunPolicy = spec.effective_run_policy
        groups = with_scaling_annotations(self._build_groups(spec), metadata.annotations)
        path = f"spec.{self.kubeflow_kind.replica_specs_field}"
        if state is None:  # an active job is limited to its bounds instead
            _check_sizes(groups, path)
        if not run.suspend:
            check_templates_unchanged(groups, state, path, self.run_policy_path)
        max_sizes = {each.name: max(each.size, each.max_size or 0) for each in groups}
        check_service_names(metadata.key, max_sizes, path, self._pod_naming())
        policy = run.scheduling_policy
        return Job(
            **job_fields_from_metadata(raw, metadata, self.custom_kind),
            groups=groups,
            # The first replica of the leader keeps a name that resolves without the service of the job.
            naming=with_job_service(self._pod_naming(), groups, metadata, state, {groups[0].name: 1}),
            frameworks=(self.kubeflow_kind.framework,),
            framework_options=self.framework_options(spec),
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=run.clean_pod_policy or self.kubeflow_kind.default_clean_pod_policy,
            restart_exit_codes=RETRYABLE_EXIT_CODES,
            restart_limit=run.backoff_limit,
            priority_class=(policy.priority_class if policy else "") or None,
            scalable_group=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=run.suspend,
            warnings=tuple(list_ignored_fields(spec, "spec")),
            autoscaling=parse_autoscaling(metadata.annotations),
            time_limit=seconds_to_timedelta(run.active_deadline_seconds),
            counts_time_from_start=True,
            ttl_after_finished=seconds_to_timedelta(run.ttl_seconds_after_finished),
            managed_by="" if run.managed_by == KUBEFLOW_MANAGED_BY_VALUE else run.managed_by,
        )

    def _build_groups(self, spec: Any) -> tuple[ReplicaGroup, ...]:
        path, specs = f"spec.{self.kubeflow_kind.replica_specs_field}", dict(self._specs_by_role(spec))
        if not specs:
            raise InvalidSpec(path, "needs at least one group")
        if (required := self.kubeflow_kind.required_role) and required not in specs:
            raise InvalidSpec(f"{path}.{required}", "is required: it leads the job")
        roles = tuple(role for role in self.kubeflow_kind.roles if role in specs)
        self.check_roles(roles)
        groups = tuple(self._build_group(spec, role, specs[role], roles) for role in roles)
        if (total := sum(group.size for group in groups)) > MAX_REPLICAS_PER_JOB:
            raise InvalidSpec(path, f"a job may have {MAX_REPLICAS_PER_JOB} replicas at most, got {total}")
        return groups

    def _specs_by_role(self, spec: Any) -> Iterator[tuple[str, KubeflowReplicaSpec]]:
        """Yield the replica specs by canonical role; users may write roles in any case."""
        canonical = {role.lower(): role for role in self.kubeflow_kind.roles}
        path = f"spec.{self.kubeflow_kind.replica_specs_field}"
        attribute = re.sub("([A-Z])", r"_\1", self.kubeflow_kind.replica_specs_field).lower()
        for name, replica in getattr(spec, attribute).items():
            if name.lower() not in canonical:
                raise InvalidSpec(f"{path}.{name}", invalid_choice_message(name, list(self.kubeflow_kind.roles)))
            yield canonical[name.lower()], replica

    def _build_group(self, spec: Any, role: str, replica: KubeflowReplicaSpec, roles: tuple[str, ...]) -> ReplicaGroup:
        path = f"spec.{self.kubeflow_kind.replica_specs_field}.{role}"
        template, container = self.pod_template(spec, role, replica), self.main_container(spec)
        info = inspect_pod_template(template, f"{path}.template", container)
        ports = info.ports
        if all(port.name != self.kubeflow_kind.default_port.name for port in ports):
            ports = (*ports, self.kubeflow_kind.default_port)
        end_policies = self.end_policies(spec, role, roles)
        size = 1 if replica.replicas is None else replica.replicas
        if role in self.kubeflow_kind.single_replica_roles and size != 1:
            raise InvalidSpec(f"{path}.replicas", f"must be 1, got {size}")
        group = ReplicaGroup(
            name=role,
            path=path,
            size=size,
            requested_sizes={SizeRequester.SPEC: size},
            template=template,
            template_hash=hash_template(replica.template),
            ports=ports,
            main_containers=frozenset({container}) & info.main_containers,
            complete_policy=end_policies.complete,
            fail_policy=end_policies.fail,
            restart_rule=RestartRule(
                policy=ENGINE_RESTART_POLICIES[replica.restart_policy or self.kubeflow_kind.default_restart_policy],
                scope=RestartScope.POD,
            ),
            first_pod_labels={f"{LABEL_PREFIX}/job-role": "master"} if role == roles[0] else {},
        )
        return _with_bounds(group, self.replica_bounds(spec, role))

    def _pod_naming(self) -> Naming:
        return Naming(
            pod_overrides=self.kubeflow_kind.pod_overrides,
            labels={
                f"{LABEL_PREFIX}/job-name": "{job}",
                f"{LABEL_PREFIX}/operator-name": f"{self.kind.lower()}-controller",
                f"{LABEL_PREFIX}/replica-type": "{group}",
                f"{LABEL_PREFIX}/replica-index": "{index}",
            },
        )


def _with_bounds(group: ReplicaGroup, bounds: ReplicaBounds | None) -> ReplicaGroup:
    """Return the group with its bounds; the minimum defaults to 1, the maximum to the size."""
    if bounds is None:
        return group
    min_size = min(group.size, 1) if bounds.min_size is None else bounds.min_size
    max_size = max(group.size, min_size) if bounds.max_size is None else bounds.max_size
    if max_size < min_size:
        raise InvalidSpec("spec.elasticPolicy.minReplicas", f"must be at most maxReplicas ({max_size}), got {min_size}")
    return replace(group, min_size=min_size, max_size=max_size, is_elastic=True, is_autoscaled=True)


def _check_sizes(groups: tuple[ReplicaGroup, ...], path: str) -> None:
    """Raise InvalidSpec if the size of a new job is beyond its bounds.

    The operator limits the size of an active job to its bounds instead, so that an edit does not stop its training.
    """
    for group in groups:
        if group.is_elastic and not group.min_size <= group.size <= (group.max_size or group.size):
            bounds = f"between minReplicas and maxReplicas, {group.min_size} to {group.max_size}"
            raise InvalidSpec(f"{path}.{group.name}.replicas", f"must be {bounds}, got {group.size}")
