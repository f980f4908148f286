"""A kind with one class: name it, say which replicas there are and what each is told; all else is here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.errors import BrokenPlugin, InvalidSpec
from pliant.frontends.aitrainingjob.status import is_rejected_status, render_rejection
from pliant.frontends.crd import CustomKind, build_crd, structural_schema
from pliant.frontends.dl.pod_templates import (
    ContainerProperties,
    container_property_errors,
    merge_ports,
    with_container_properties,
)
from pliant.frontends.dl.replica import DLReplica
from pliant.frontends.dl.status import render_status
from pliant.frontends.dl.types import (
    MAX_REPLICAS,
    PRINTER_COLUMNS,
    DLJobSpecSchema,
    DLJobStatus,
    DLReplicaSpec,
    DLRestartPolicy,
    DLRunPolicy,
)
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.spec.decoding import decode, invalid_choice_message
from pliant.frontends.spec.metadata import owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import check_pod_names
from pliant.frontends.spec.pod_templates import hash_template, inspect_pod_template
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.framework import Framework, Rank
from pliant.model.job import (
    CleanPodPolicy,
    EndPolicy,
    Job,
    Naming,
    ReplicaGroup,
    RestartPolicy,
    RestartRule,
    RestartScope,
)
from pliant.model.state import EngineState, JobPhase, SizeRequester

RUN_POLICY_FIELD = "runPolicy"
RETRYABLE_EXIT_CODES = frozenset(range(128, 256))
"""Exit codes that ExitCode restarts on: signals, and what programs choose up there."""
_KIND_PATTERN = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API_GROUP_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_REPLICA_TYPE_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RESTART_POLICIES = {
    DLRestartPolicy.ALWAYS: RestartPolicy.ALWAYS,
    DLRestartPolicy.ON_FAILURE: RestartPolicy.ALWAYS,
    DLRestartPolicy.NEVER: RestartPolicy.NEVER,
    DLRestartPolicy.EXIT_CODE: RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE,
}


class DLJob(RenderingFrontend):
    """The base of kinds whose spec is a list of replicas; the first line of a subclass describes it."""

    renderer = StatusRenderer(render=render_status, render_rejection=render_rejection, is_rejected=is_rejected_status)
    job_type: str = ""
    """The kind: `MXJob`."""
    group: str = ""
    """The API group: `example.com`."""
    version: str = "v1"
    replica_types: Sequence[str] = ()
    """The types of replicas, in lower case and in the order of ranks."""
    container_properties: ContainerProperties = ContainerProperties()
    """The ports and volumes of every replica."""
    completing: Sequence[str] = ()
    """Whose success ends the job: of the first of these types that a job has, all. Default: the last type."""
    frameworks: Sequence[str] = ()
    """Frameworks known to Pliant whose variables replicas get as well."""
    restart_policy: DLRestartPolicy = DLRestartPolicy.EXIT_CODE
    restart_scope: RestartScope = RestartScope.ALL
    restart_limit: int = 3
    naming: Naming = Naming()

    def __init__(self) -> None:
        if problem := next(_definition_errors(self), None):
            raise BrokenPlugin(f"{type(self).__name__}: {problem}")

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """The variables that tell a replica who it is and where the others are."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        """The kind, `MXJob`."""
        return self.job_type

    @property
    def plural(self) -> str:
        """The resource name in paths, `mxjobs`."""
        return f"{self.job_type.lower()}s"

    @property
    def run_policy_path(self) -> str:
        """Where `suspend` is written."""
        return RUN_POLICY_FIELD

    @property
    def own_framework(self) -> Framework:
        """What members are told, in the form that the engine asks for."""
        return DLJobFramework(self)

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        crd = build_crd(self._custom_kind)
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        types = schema["properties"]["spec"]["items"]["properties"]["replicaType"]
        said = f"one of {', '.join(self.replica_types)}, in upper or lower case"
        types["description"] = f"The part they play: {said}."
        rule = f"self.lowerAscii() in {list(self.replica_types)}"
        types["x-kubernetes-validations"] = [{"rule": rule, "message": f"must be {said}"}]
        schema["properties"][RUN_POLICY_FIELD] = structural_schema(DLRunPolicy)
        return crd

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        written = self._specs_by_type(decode(list[DLReplicaSpec], raw.get("spec") or [], "spec"))
        run = decode(DLRunPolicy, raw.get(RUN_POLICY_FIELD), RUN_POLICY_FIELD)
        groups = tuple(self._build_groups(written))
        state = load_state(raw_status(raw))
        if not run.suspend:
            _check_types_unchanged(groups, written, state)
        check_pod_names(metadata.key, {each.name: each.size for each in groups}, "spec", self.naming)
        job = Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, self._custom_kind),
            groups=groups,
            labels=metadata.labels,
            naming=self.naming,
            frameworks=(*self.frameworks, self.own_framework.name),
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=run.clean_pod_policy or CleanPodPolicy.RUNNING,
            restart_exit_codes=RETRYABLE_EXIT_CODES,
            restart_limit=run.backoff_limit,
            is_suspended=run.suspend,
            time_limit=seconds_to_timedelta(run.active_deadline_seconds),
            counts_time_from_start=True,
            ttl_after_finished=seconds_to_timedelta(run.ttl_seconds_after_finished),
            managed_by=run.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            end_request=parse_end_request(metadata.annotations),
            state=state,
        )
        if state is None:
            for group in groups:  # what cannot be told to anybody is best known before the first pod
                self.own_framework.environment(job, Rank(group=group, index=0, attempt=0), "")
        return job

    @property
    def _custom_kind(self) -> CustomKind:
        return CustomKind(
            group=self.group,
            version=self.version,
            kind=self.kind,
            plural=self.plural,
            description=(self.__doc__ or "A training job.").splitlines()[0],
            spec_type=DLJobSpecSchema,
            status_type=DLJobStatus,
            printer_columns=PRINTER_COLUMNS,
        )

    def _specs_by_type(self, replica_specs: list[DLReplicaSpec]) -> dict[str, tuple[str, DLReplicaSpec]]:
        """What is written of each type, and where."""
        found: dict[str, tuple[str, DLReplicaSpec]] = {}
        for index, replica in enumerate(replica_specs):
            name, path = replica.replica_type.lower(), f"spec[{index}]"
            if name not in self.replica_types:
                raise InvalidSpec(
                    f"{path}.replicaType", invalid_choice_message(replica.replica_type, list(self.replica_types))
                )
            if name in found:
                raise InvalidSpec(f"{path}.replicaType", f"{name} is there already, as {found[name][0]}")
            found[name] = (path, replica)
        sizes = {name: _replica_count(replica) for name, (_, replica) in found.items()}
        if (number := sum(sizes.values())) > MAX_REPLICAS:
            raise InvalidSpec("spec", f"there are {number} replicas, at most {MAX_REPLICAS} are possible in one job")
        if not any(sizes.get(name) for name in self._completing_types):
            who = " or ".join(self._completing_types)
            raise InvalidSpec("spec", f"needs a replica of type {who}: nobody else's success ends the job")
        return found

    @property
    def _completing_types(self) -> tuple[str, ...]:
        return tuple(self.completing or self.replica_types[-1:])

    def _build_groups(self, specs_by_type: Mapping[str, tuple[str, DLReplicaSpec]]) -> Iterator[ReplicaGroup]:
        decides = next(
            name for name in self._completing_types if name in specs_by_type and _replica_count(specs_by_type[name][1])
        )
        for name in self.replica_types:
            if name not in specs_by_type:
                continue
            path, replica = specs_by_type[name]
            facts = inspect_pod_template(replica.template, f"{path}.template", "")
            first = replica.template["spec"]["containers"][0]["name"]
            ports = merge_ports(facts, self.container_properties, first)
            yield ReplicaGroup(
                name=name,
                size=_replica_count(replica),
                requested_sizes={SizeRequester.SPEC: _replica_count(replica)},
                template=with_container_properties(replica.template, self.container_properties, ports),
                template_hash=hash_template(replica.template),
                ports=ports,
                complete_policy=EndPolicy.ALL if name == decides else EndPolicy.NONE,
                restart_rule=self._restart_rule(replica),
            )

    def _restart_rule(self, replica_spec: DLReplicaSpec) -> RestartRule:
        """What is written of restarts; else what the template says, done by the operator in the node's place."""
        template = replica_spec.template["spec"].get("restartPolicy")
        said = DLRestartPolicy(template) if template in list(DLRestartPolicy) else self.restart_policy
        return RestartRule(
            policy=_RESTART_POLICIES[replica_spec.restart_policy or said],
            scope=replica_spec.restart_scope or self.restart_scope,
            limit=self.restart_limit if replica_spec.restart_limit is None else replica_spec.restart_limit,
        )


@dataclass(frozen=True)
class DLJobFramework(Framework):
    """The framework of a kind: what its class says about the environment."""

    dl_job: DLJob

    @property
    def name(self) -> str:
        """A word that no other kind has: `mxjob.mpba.fbk.eu`."""
        return f"{self.dl_job.kind}.{self.dl_job.group}".lower()

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables of the kind's author; raises InvalidSpec for whatever goes wrong in getting them."""
        usual = next(iter(self.dl_job.container_properties.get("ports", {})), "")
        name, index = rank.group.name, rank.index
        replica = DLReplica(job=job, type=name, index=index, attempt=rank.attempt, default_port_name=usual)
        method = f"{type(self.dl_job).__name__}.get_environment_variables"
        try:
            variables = dict(self.dl_job.get_environment_variables(replica))
        except InvalidSpec:
            raise
        except Exception as problem:  # somebody else's code: one job suffers, and is told
            raise InvalidSpec("spec", f"{method} failed for {name}-{index}: {problem!r}; mend the plugin") from None
        for variable, value in variables.items():
            if not isinstance(variable, str) or not isinstance(value, str):
                raise InvalidSpec("spec", f"{method} gave {variable!r}: {value!r} to {name}-{index}, which is no text")
        return variables


def _replica_count(replica_spec: DLReplicaSpec) -> int:
    return 1 if replica_spec.replicas is None else replica_spec.replicas


def _check_types_unchanged(
    groups: tuple[ReplicaGroup, ...], specs_by_type: Mapping[str, tuple[str, DLReplicaSpec]], state: EngineState | None
) -> None:
    """Raise InvalidSpec if a job under way got other types or templates: its replicas would no longer be alike."""
    if state is None or state.outcome is not None or state.phase is JobPhase.SUSPENDED or state.phase.is_final:
        return
    made_from = {name: memory.template_hash for name, memory in state.groups.items() if memory.template_hash}
    advice = f"while the job is under way: set {RUN_POLICY_FIELD}.suspend first, or undo the edit"
    present = {group.name: group.template_hash for group in groups}
    if made_from and (changed := sorted(made_from.keys() ^ present.keys())):
        raise InvalidSpec("spec", f"{', '.join(changed)} cannot be added or removed {advice}")
    for name, template in made_from.items():
        if present[name] != template:
            raise InvalidSpec(f"{specs_by_type[name][0]}.template", f"cannot change {advice}")


def _definition_errors(dl_job: DLJob) -> Iterator[str]:
    """What the author of a kind must mend, in the words of the class."""
    if not _KIND_PATTERN.fullmatch(dl_job.job_type):
        yield f"job_type must be a kind such as MyJob, got {dl_job.job_type!r}"
    if not _API_GROUP_PATTERN.fullmatch(dl_job.group):
        yield f"group must be a domain such as example.com, got {dl_job.group!r}"
    if isinstance(dl_job.replica_types, str) or not dl_job.replica_types:
        yield f"replica_types must list names such as ('master', 'worker'), got {dl_job.replica_types!r}"
    for name in dl_job.replica_types:
        if (
            not isinstance(name, str)
            or not _REPLICA_TYPE_PATTERN.fullmatch(name)
            or dl_job.replica_types.count(name) > 1
        ):
            yield f"replica_types: {name!r} must be a word in lower case, and there once"
    for name in dl_job.completing:
        if name not in dl_job.replica_types:
            yield f"completing: {name!r} is none of the replica_types"
    yield from container_property_errors(dl_job.container_properties)
    if type(dl_job).get_environment_variables is DLJob.get_environment_variables:
        yield "get_environment_variables(self, replica) is missing"
