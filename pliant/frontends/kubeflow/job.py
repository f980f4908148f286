"""What all kinds of kubeflow.org/v1 have in common: from a raw object to a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.kubeflow.status import (
    is_rejected_status,
    render_rejection,
    render_status,
    state_from_external_status,
)
from pliant.frontends.kubeflow.types import MAX_REPLICAS, KubeflowReplicaSpec, KubeflowRestartPolicy, KubeflowRunPolicy
from pliant.frontends.scaling import parse_autoscaling, with_scaling_annotations
from pliant.frontends.spec.decoding import decode, invalid_choice_message
from pliant.frontends.spec.metadata import owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import check_pod_names
from pliant.frontends.spec.pod_templates import check_templates_unchanged, hash_template, inspect_pod_template
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, Port, ReplicaGroup, RestartRule, RestartScope
from pliant.model.job import RestartPolicy as Restarts
from pliant.model.state import SizeRequester

API_GROUP, API_VERSION = "kubeflow.org", "v1"
LABEL_PREFIX = "training.kubeflow.org"
TRAINING_OPERATOR = "kubeflow.org/training-operator"
"""What `managedBy` says of jobs that are not handed over to anybody."""
RETRYABLE_EXIT_CODES = frozenset(range(128, 256))
"""Exit codes that ExitCode restarts on: signals, and what programs choose up there."""

PRINTER_COLUMNS = (
    PrinterColumn(name="State", type="string", json_path=".status.conditions[-1:].type"),
    PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
    PrinterColumn(name="Reason", type="string", json_path=".status.conditions[-1:].message", priority=1),
)


def worker_scale_paths(replica_specs_field: str) -> CrdScalePaths:
    """What `kubectl scale` speaks of in most kinds: the workers."""
    return CrdScalePaths(
        spec_path=f".spec.{replica_specs_field}.Worker.replicas",
        status_path=".status.replicaStatuses.Worker.active",
        selector_path=".status.replicaStatuses.Worker.selector",
    )


class GroupEndPolicies(NamedTuple):
    """Whose success completes a group, and whose failure fails it."""

    complete: EndPolicy = EndPolicy.NONE
    fail: EndPolicy = EndPolicy.ANY


class ReplicaBounds(NamedTuple):
    """Between which sizes a group may move."""

    min_size: int | None
    max_size: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeflowKind:
    """What tells one of the kinds from the others."""

    custom_kind: CustomKind
    framework: str
    replica_specs_field: str
    """The field that holds the groups."""
    roles: tuple[str, ...]
    """The groups there can be; the first one that a job has leads it."""
    main_container: str
    """The container that speaks for its pod."""
    default_port: Port
    default_restart_policy: KubeflowRestartPolicy = KubeflowRestartPolicy.NEVER
    default_clean_pod_policy: CleanPodPolicy = CleanPodPolicy.NONE
    single_replica_roles: frozenset[str] = frozenset()
    """Groups that have one member, no more and no less."""
    required_role: str = ""
    """A group that no job can do without."""
    pod_overrides: Mapping[str, str] = field(default_factory=dict)
    """Names of pods that are made in another way, by group in lower case."""


class KubeflowJobFrontend(RenderingFrontend):
    """A front end of kubeflow.org/v1: a kind adds its dialect, its spec, its ends and its options."""

    renderer = StatusRenderer(render=render_status, render_rejection=render_rejection, is_rejected=is_rejected_status)
    kubeflow_kind: KubeflowKind
    group = API_GROUP
    version = API_VERSION
    run_policy_path = "spec.runPolicy"

    @property
    def kind(self) -> str:
        """The kind, `PyTorchJob`."""
        return self.kubeflow_kind.custom_kind.kind

    @property
    def plural(self) -> str:
        """The resource name in paths, `pytorchjobs`."""
        return self.kubeflow_kind.custom_kind.plural

    def end_policies(self, spec: Any, role: str, roles: tuple[str, ...]) -> GroupEndPolicies:
        """How a group counts in a job with these roles: unless a kind says otherwise, its leader decides."""
        return GroupEndPolicies(EndPolicy.RANK0) if role == roles[0] else GroupEndPolicies()

    def check_roles(self, roles: tuple[str, ...]) -> None:
        """Raise InvalidSpec unless these groups can be in one job."""

    def pod_template(self, spec: Any, role: str, replica: KubeflowReplicaSpec) -> Mapping[str, Any]:
        """What the pods of a group are made from."""
        return replica.template

    def main_container(self, spec: Any) -> str:
        """The container that speaks for its pod."""
        return self.kubeflow_kind.main_container

    def framework_options(self, spec: Any) -> Mapping[str, Any]:
        """What the spec says to the framework."""
        return {}

    def replica_bounds(self, spec: Any, role: str) -> ReplicaBounds | None:
        """Between which sizes a group may move, if its size may change by itself."""
        return None

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return build_crd(self.kubeflow_kind.custom_kind)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata, dialect = read_metadata(raw), self.kubeflow_kind
        spec = decode(dialect.custom_kind.spec_type, raw.get("spec"), "spec")
        run: KubeflowRunPolicy = spec.effective_run_policy
        groups = with_scaling_annotations(self._build_groups(spec), metadata.annotations)
        path = f"spec.{dialect.replica_specs_field}"
        status = raw_status(raw)
        state = load_state(status)
        if state is None:
            _check_sizes(groups, path)
        if not run.suspend:
            check_templates_unchanged(groups, state, path, self.run_policy_path)
        naming = _pod_naming(dialect)
        check_pod_names(metadata.key, {each.name: max(each.size, each.max_size or 0) for each in groups}, path, naming)
        policy = run.scheduling_policy
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, dialect.custom_kind),
            groups=groups,
            labels=metadata.labels,
            naming=naming,
            frameworks=(dialect.framework,),
            framework_options=self.framework_options(spec),
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=run.clean_pod_policy or dialect.default_clean_pod_policy,
            restart_exit_codes=RETRYABLE_EXIT_CODES,
            restart_limit=run.backoff_limit,
            priority_class=(policy.priority_class if policy else "") or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            scalable_group=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=run.suspend,
            autoscaling=parse_autoscaling(metadata.annotations),
            time_limit=seconds_to_timedelta(run.active_deadline_seconds),
            counts_time_from_start=True,
            ttl_after_finished=seconds_to_timedelta(run.ttl_seconds_after_finished),
            end_request=parse_end_request(metadata.annotations),
            managed_by="" if run.managed_by == TRAINING_OPERATOR else run.managed_by,
            state=state or state_from_external_status(status, metadata.creation_timestamp),
        )

    def _build_groups(self, spec: Any) -> tuple[ReplicaGroup, ...]:
        written = dict(self._specs_by_role(spec))
        if not written:
            raise InvalidSpec(f"spec.{self.kubeflow_kind.replica_specs_field}", "needs at least one group")
        if (needed := self.kubeflow_kind.required_role) and needed not in written:
            raise InvalidSpec(
                f"spec.{self.kubeflow_kind.replica_specs_field}.{needed}", "is required: it leads the job"
            )
        roles = tuple(role for role in self.kubeflow_kind.roles if role in written)
        self.check_roles(roles)
        groups = tuple(self._build_group(spec, role, written[role], roles) for role in roles)
        if (number := sum(group.size for group in groups)) > MAX_REPLICAS:
            problem = f"the groups have {number} members together, at most {MAX_REPLICAS} are possible in one job"
            raise InvalidSpec(f"spec.{self.kubeflow_kind.replica_specs_field}", problem)
        return groups

    def _specs_by_role(self, spec: Any) -> Iterator[tuple[str, KubeflowReplicaSpec]]:
        """The groups under the names the kind knows; users write them in any case."""
        known = {role.lower(): role for role in self.kubeflow_kind.roles}
        path = f"spec.{self.kubeflow_kind.replica_specs_field}"
        for name, replica in getattr(spec, _to_snake_case(self.kubeflow_kind.replica_specs_field)).items():
            if name.lower() not in known:
                raise InvalidSpec(f"{path}.{name}", invalid_choice_message(name, list(self.kubeflow_kind.roles)))
            yield known[name.lower()], replica

    def _build_group(self, spec: Any, role: str, replica: KubeflowReplicaSpec, roles: tuple[str, ...]) -> ReplicaGroup:
        path = f"spec.{self.kubeflow_kind.replica_specs_field}.{role}"
        template, container = self.pod_template(spec, role, replica), self.main_container(spec)
        facts = inspect_pod_template(template, f"{path}.template", container)
        ports = facts.ports
        if all(port.name != self.kubeflow_kind.default_port.name for port in ports):
            ports = (*ports, self.kubeflow_kind.default_port)
        ends = self.end_policies(spec, role, roles)
        size = 1 if replica.replicas is None else replica.replicas
        if role in self.kubeflow_kind.single_replica_roles and size != 1:
            raise InvalidSpec(f"{path}.replicas", f"must be 1, got {size}")
        group = ReplicaGroup(
            name=role,
            size=size,
            requested_sizes={SizeRequester.SPEC: size},
            template=template,
            template_hash=hash_template(replica.template),
            ports=ports,
            main_containers=frozenset({container}) & facts.main_containers,
            complete_policy=ends.complete,
            fail_policy=ends.fail,
            restart_rule=RestartRule(
                policy=_RESTART_POLICIES[replica.restart_policy or self.kubeflow_kind.default_restart_policy],
                scope=RestartScope.POD,
            ),
            first_pod_labels={f"{LABEL_PREFIX}/job-role": "master"} if role == roles[0] else {},
        )
        return _with_bounds(group, self.replica_bounds(spec, role))


_RESTART_POLICIES = {
    KubeflowRestartPolicy.ALWAYS: Restarts.ALWAYS,
    KubeflowRestartPolicy.ON_FAILURE: Restarts.ALWAYS,
    KubeflowRestartPolicy.NEVER: Restarts.NEVER,
    KubeflowRestartPolicy.EXIT_CODE: Restarts.ON_NODE_FAIL_WITH_EXIT_CODE,
}


def _with_bounds(group: ReplicaGroup, bounds: ReplicaBounds | None) -> ReplicaGroup:
    """The group with its bounds; one that is left out lies where the size is."""
    if bounds is None:
        return group
    least = min(group.size, 1) if bounds.min_size is None else bounds.min_size
    most = max(group.size, least) if bounds.max_size is None else bounds.max_size
    if most < least:
        raise InvalidSpec("spec.elasticPolicy.minReplicas", f"must be at most maxReplicas ({most}), got {least}")
    return replace(group, min_size=least, max_size=most, is_elastic=True, is_autoscaled=True)


def _check_sizes(groups: tuple[ReplicaGroup, ...], path: str) -> None:
    """Raise InvalidSpec if a new job is larger or smaller than it says it may be.

    One under way keeps to its bounds, whatever size is asked for: a slip of the hand must not stop its training.
    """
    for group in groups:
        if group.is_elastic and not group.min_size <= group.size <= (group.max_size or group.size):
            bounds = f"between minReplicas and maxReplicas, {group.min_size} to {group.max_size}"
            raise InvalidSpec(f"{path}.{group.name}.replicas", f"must be {bounds}, got {group.size}")


def _pod_naming(kubeflow_kind: KubeflowKind) -> Naming:
    return Naming(
        pod_overrides=kubeflow_kind.pod_overrides,
        labels={
            f"{LABEL_PREFIX}/job-name": "{job}",
            f"{LABEL_PREFIX}/operator-name": f"{kubeflow_kind.custom_kind.kind.lower()}-controller",
            f"{LABEL_PREFIX}/replica-type": "{group}",
            f"{LABEL_PREFIX}/replica-index": "{index}",
        },
    )


def _to_snake_case(camel_case: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel_case)
