"""What all kinds of kubeflow.org/v1 have in common: from a raw object to a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pliant.errors import InvalidSpec
from pliant.frontends.crd import Column, CustomKind, ScalePaths, custom_resource_definition
from pliant.frontends.kubeflow.status import inherited, is_rejected_status, rejected_status, rendered_status
from pliant.frontends.kubeflow.types import MOST_MEMBERS, ReplicaSpec, RestartPolicy, RunPolicy
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import owner_of, read_metadata
from pliant.frontends.naming import check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.reading import not_one_of, read
from pliant.frontends.scaling import autoscaling_in, scaled_by
from pliant.frontends.spans import span
from pliant.frontends.templates import check_unchanged, fingerprint, template_facts
from pliant.frontends.words import Spoken, Words
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, Naming, Port, RestartRule, RestartScope
from pliant.model.job import RestartPolicy as Restarts
from pliant.model.state import Requester

GROUP, VERSION = "kubeflow.org", "v1"
PREFIX = "training.kubeflow.org"
OURS = "kubeflow.org/training-operator"
"""What `managedBy` says of jobs that are not handed over to anybody."""
RETRYABLE = frozenset(range(128, 256))
"""Exit codes that ExitCode restarts on: signals, and what programs choose up there."""

COLUMNS = (
    Column(name="State", type="string", path=".status.conditions[-1:].type"),
    Column(name="Age", type="date", path=".metadata.creationTimestamp"),
    Column(name="Reason", type="string", path=".status.conditions[-1:].message", priority=1),
)


def worker_scale(replica_specs: str) -> ScalePaths:
    """What `kubectl scale` speaks of in most kinds: the workers."""
    return ScalePaths(
        spec=f".spec.{replica_specs}.Worker.replicas",
        status=".status.replicaStatuses.Worker.active",
        selector=".status.replicaStatuses.Worker.selector",
    )


class Ends(NamedTuple):
    """Whose success completes a group, and whose failure fails it."""

    complete: EndPolicy = EndPolicy.NONE
    fail: EndPolicy = EndPolicy.ANY


class Bounds(NamedTuple):
    """Between which sizes a group may move."""

    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What tells one of the kinds from the others."""

    kind: CustomKind
    framework: str
    replica_specs: str
    """The field that holds the groups."""
    roles: tuple[str, ...]
    """The groups there can be; the first one that a job has leads it."""
    container: str
    """The container that speaks for its pod."""
    port: Port
    restart: RestartPolicy = RestartPolicy.NEVER
    clean: CleanPolicy = CleanPolicy.NONE
    single: frozenset[str] = frozenset()
    """Groups that have one member, no more and no less."""
    needed: str = ""
    """A group that no job can do without."""
    pods: Mapping[str, str] = field(default_factory=dict)
    """Names of pods that are made in another way, by group in lower case."""


class KubeflowJob(Spoken):
    """A front end of kubeflow.org/v1: a kind adds its dialect, its spec, its ends and its options."""

    words = Words(rendered=rendered_status, rejected=rejected_status, is_rejected=is_rejected_status)
    dialect: Dialect
    group = GROUP
    version = VERSION
    policy_field = "spec.runPolicy"

    @property
    def kind(self) -> str:
        """The kind, `PyTorchJob`."""
        return self.dialect.kind.kind

    @property
    def plural(self) -> str:
        """The resource name in paths, `pytorchjobs`."""
        return self.dialect.kind.plural

    def ends(self, spec: Any, role: str, roles: tuple[str, ...]) -> Ends:
        """How a group counts in a job with these roles: unless a kind says otherwise, its leader decides."""
        return Ends(EndPolicy.RANK0) if role == roles[0] else Ends()

    def check(self, roles: tuple[str, ...]) -> None:
        """Raise InvalidSpec unless these groups can be in one job."""

    def template(self, spec: Any, role: str, replica: ReplicaSpec) -> Mapping[str, Any]:
        """What the pods of a group are made from."""
        return replica.template

    def container(self, spec: Any) -> str:
        """The container that speaks for its pod."""
        return self.dialect.container

    def options(self, spec: Any) -> Mapping[str, Any]:
        """What the spec says to the framework."""
        return {}

    def bounds(self, spec: Any, role: str) -> Bounds | None:
        """Between which sizes a group may move, if its size may change by itself."""
        return None

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return custom_resource_definition(self.dialect.kind)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata, dialect = read_metadata(raw), self.dialect
        spec = read(dialect.kind.spec, raw.get("spec"), "spec")
        run: RunPolicy = spec.policy
        groups = scaled_by(self._groups(spec), metadata.annotations)
        path = f"spec.{dialect.replica_specs}"
        status = status_in(raw)
        state = remembered(status)
        if state is None:
            _check_sizes(groups, path)
        if not run.suspend:
            check_unchanged(groups, state, path, self.policy_field)
        naming = _naming(dialect)
        check_member_names(
            metadata.key, {each.name: max(each.size, each.most or 0) for each in groups}, path, naming
        )
        policy = run.scheduling_policy
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, dialect.kind),
            groups=groups,
            labels=metadata.labels,
            naming=naming,
            frameworks=(dialect.framework,),
            options=self.options(spec),
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean=run.clean_pod_policy or dialect.clean,
            restart_exit_codes=RETRYABLE,
            restart_limit=run.backoff_limit,
            priority=(policy.priority_class if policy else "") or None,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            elastic=next((each.name for each in groups if each.is_elastic), ""),
            is_suspended=run.suspend,
            autoscaling=autoscaling_in(metadata.annotations),
            time_limit=span(run.active_deadline_seconds),
            is_limited_from_start=True,
            time_to_live=span(run.ttl_seconds_after_finished),
            order=order_in(metadata.annotations),
            managed_by="" if run.managed_by == OURS else run.managed_by,
            state=state or inherited(status, metadata.creation_timestamp),
        )

    def _groups(self, spec: Any) -> tuple[Group, ...]:
        written = dict(self._written(spec))
        if not written:
            raise InvalidSpec(f"spec.{self.dialect.replica_specs}", "needs at least one group")
        if (needed := self.dialect.needed) and needed not in written:
            raise InvalidSpec(f"spec.{self.dialect.replica_specs}.{needed}", "is required: it leads the job")
        roles = tuple(role for role in self.dialect.roles if role in written)
        self.check(roles)
        groups = tuple(self._group(spec, role, written[role], roles) for role in roles)
        if (number := sum(group.size for group in groups)) > MOST_MEMBERS:
            problem = f"the groups have {number} members together, at most {MOST_MEMBERS} are possible in one job"
            raise InvalidSpec(f"spec.{self.dialect.replica_specs}", problem)
        return groups

    def _written(self, spec: Any) -> Iterator[tuple[str, ReplicaSpec]]:
        """The groups under the names the kind knows; users write them in any case."""
        known = {role.lower(): role for role in self.dialect.roles}
        path = f"spec.{self.dialect.replica_specs}"
        for name, replica in getattr(spec, _snake(self.dialect.replica_specs)).items():
            if name.lower() not in known:
                raise InvalidSpec(f"{path}.{name}", not_one_of(name, list(self.dialect.roles)))
            yield known[name.lower()], replica

    def _group(self, spec: Any, role: str, replica: ReplicaSpec, roles: tuple[str, ...]) -> Group:
        path = f"spec.{self.dialect.replica_specs}.{role}"
        template, container = self.template(spec, role, replica), self.container(spec)
        facts = template_facts(template, f"{path}.template", container)
        ports = facts.ports
        if all(port.name != self.dialect.port.name for port in ports):
            ports = (*ports, self.dialect.port)
        ends = self.ends(spec, role, roles)
        size = 1 if replica.replicas is None else replica.replicas
        if role in self.dialect.single and size != 1:
            raise InvalidSpec(f"{path}.replicas", f"must be 1, got {size}")
        group = Group(
            name=role,
            size=size,
            requests={Requester.SPEC: size},
            template=template,
            fingerprint=fingerprint(replica.template),
            ports=ports,
            counted=frozenset({container}) & facts.counted,
            complete_policy=ends.complete,
            fail_policy=ends.fail,
            restart=RestartRule(
                policy=_RESTARTS[replica.restart_policy or self.dialect.restart], scope=RestartScope.POD
            ),
            lead_labels={f"{PREFIX}/job-role": "master"} if role == roles[0] else {},
        )
        return _bounded(group, self.bounds(spec, role))


_RESTARTS = {
    RestartPolicy.ALWAYS: Restarts.ALWAYS,
    RestartPolicy.ON_FAILURE: Restarts.ALWAYS,
    RestartPolicy.NEVER: Restarts.NEVER,
    RestartPolicy.EXIT_CODE: Restarts.ON_NODE_FAIL_WITH_EXIT_CODE,
}


def _bounded(group: Group, bounds: Bounds | None) -> Group:
    """The group with its bounds; one that is left out lies where the size is."""
    if bounds is None:
        return group
    least = min(group.size, 1) if bounds.least is None else bounds.least
    most = max(group.size, least) if bounds.most is None else bounds.most
    if most < least:
        raise InvalidSpec("spec.elasticPolicy.minReplicas", f"must be at most maxReplicas ({most}), got {least}")
    return replace(group, least=least, most=most, is_elastic=True, is_automatic=True)


def _check_sizes(groups: tuple[Group, ...], path: str) -> None:
    """Raise InvalidSpec if a new job is larger or smaller than it says it may be.

    One under way keeps to its bounds, whatever size is asked for: a slip of the hand must not stop its training.
    """
    for group in groups:
        if group.is_elastic and not group.least <= group.size <= (group.most or group.size):
            bounds = f"between minReplicas and maxReplicas, {group.least} to {group.most}"
            raise InvalidSpec(f"{path}.{group.name}.replicas", f"must be {bounds}, got {group.size}")


def _naming(dialect: Dialect) -> Naming:
    return Naming(
        pods=dialect.pods,
        labels={
            f"{PREFIX}/job-name": "{job}",
            f"{PREFIX}/operator-name": f"{dialect.kind.kind.lower()}-controller",
            f"{PREFIX}/replica-type": "{group}",
            f"{PREFIX}/replica-index": "{index}",
        },
    )


def _snake(camel: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in camel)
