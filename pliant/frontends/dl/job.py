"""DLJob: a base class that defines a kind by its replica types and their environment variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.errors import BrokenPlugin, InvalidSpec
from pliant.frontends.crd import CustomKind, structural_schema
from pliant.frontends.dl import pod_templates, status
from pliant.frontends.dl.pod_templates import ContainerProperties
from pliant.frontends.dl.replica import DLReplica
from pliant.frontends.dl.types import PRINTER_COLUMNS, DLJobSpecSchema, DLJobStatus, DLReplicaSpec, DLRunPolicy
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.fields import (
    ENGINE_RESTART_POLICIES,
    MAX_REPLICAS_PER_JOB,
    RETRYABLE_EXIT_CODES,
    ReplicaRestartPolicy,
)
from pliant.frontends.frontend import Frontend
from pliant.frontends.spec.decoding import decode, invalid_choice_message
from pliant.frontends.spec.metadata import check_service_names, job_fields_from_metadata, read_metadata
from pliant.frontends.spec.pod_templates import (
    active_template_hashes,
    hash_template,
    inspect_pod_template,
    suspend_advice,
)
from pliant.frontends.spec.quantities import seconds_to_timedelta
from pliant.model.framework import Framework, Rank
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup, RestartRule, RestartScope
from pliant.model.state import EngineState, SizeRequester

RUN_POLICY_FIELD = "runPolicy"
_EDIT_RULES = EditRules(run_policy_path=RUN_POLICY_FIELD)
_KIND_PATTERN = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_API_GROUP_PATTERN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_REPLICA_TYPE_PATTERN = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class DLJob(Frontend):
    """The base class of kinds whose spec is a list of replica types. The docstring of a subclass describes the kind."""

    render_status = staticmethod(status.render_status)
    job_type: str = ""
    """The kind, `MXJob`."""
    group: str = ""
    """The API group, `example.com`."""
    version: str = "v1"
    replica_types: Sequence[str] = ()
    """The replica types in lower case, in the order of ranks."""
    container_properties: ContainerProperties = ContainerProperties()
    """The ports and volumes of all replicas."""
    completing: Sequence[str] = ()
    """The job completes when all replicas of the first of these types that it has succeed. Default: the last type."""
    frameworks: Sequence[str] = ()
    """Built-in frameworks whose environment variables replicas get in addition."""
    restart_policy: ReplicaRestartPolicy = ReplicaRestartPolicy.EXIT_CODE
    restart_scope: RestartScope = RestartScope.ALL
    restart_limit: int = 3
    naming: Naming = Naming()
    run_policy_path = RUN_POLICY_FIELD

    def __init__(self) -> None:
        if problem := next(_definition_errors(self), None):
            raise BrokenPlugin(f"{type(self).__name__}: {problem}")

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        """Return the environment variables of a replica."""
        raise NotImplementedError

    @property
    def kind(self) -> str:
        return self.job_type

    @property
    def own_framework(self) -> Framework:
        """The framework that sets the environment variables of the kind."""
        return DLJobFramework(self)

    def crd(self) -> dict[str, Any]:
        crd = super().crd()
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["maxItems"] = len(self.replica_types)
        replica_type = schema["properties"]["spec"]["items"]["properties"]["replicaType"]
        choices = f"one of {', '.join(self.replica_types)}, in upper or lower case"
        replica_type["description"] = f"Type of the replicas: {choices}."
        rule = f"self.lowerAscii() in {list(self.replica_types)}"
        replica_type["x-kubernetes-validations"] = [{"rule": rule, "message": f"must be {choices}"}]
        schema["properties"][RUN_POLICY_FIELD] = structural_schema(DLRunPolicy)
        return crd

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        specs = self._specs_by_type(decode(list[DLReplicaSpec], raw.get("spec") or [], "spec"))
        run = decode(DLRunPolicy, raw.get(RUN_POLICY_FIELD), RUN_POLICY_FIELD)
        groups = tuple(self._build_groups(specs))
        if not run.suspend:
            _check_types_unchanged(groups, specs, state)
        check_service_names(metadata.key, {each.name: each.size for each in groups}, "spec", self.naming)
        job = Job(
            **job_fields_from_metadata(raw, metadata, self.custom_kind),
            groups=groups,
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
        )
        if state is None:
            for group in groups:  # report errors of the plugin before the first pod is created
                self.own_framework.environment(job, Rank(group=group, index=0, attempt=0), "")
        return job

    @property
    def custom_kind(self) -> CustomKind:
        return CustomKind(
            group=self.group,
            version=self.version,
            kind=self.kind,
            description=(self.__doc__ or "A training job.").splitlines()[0],
            spec_type=DLJobSpecSchema,
            status_type=DLJobStatus,
            printer_columns=PRINTER_COLUMNS,
            rules=_EDIT_RULES.for_group_list("spec", "replicaType") | _EDIT_RULES.for_managed_by(),
        )

    def _specs_by_type(self, replica_specs: list[DLReplicaSpec]) -> dict[str, tuple[str, DLReplicaSpec]]:
        """Return the path and the spec of each replica type."""
        specs: dict[str, tuple[str, DLReplicaSpec]] = {}
        for index, replica in enumerate(replica_specs):
            name, path = replica.replica_type.lower(), f"spec[{index}]"
            if name not in self.replica_types:
                message = invalid_choice_message(replica.replica_type, list(self.replica_types))
                raise InvalidSpec(f"{path}.replicaType", message)
            if name in specs:
                raise InvalidSpec(f"{path}.replicaType", f"{name} is already defined by {specs[name][0]}")
            specs[name] = (path, replica)
        sizes = {name: _replica_count(replica) for name, (_, replica) in specs.items()}
        if (total := sum(sizes.values())) > MAX_REPLICAS_PER_JOB:
            raise InvalidSpec("spec", f"a job may have {MAX_REPLICAS_PER_JOB} replicas at most, got {total}")
        if not any(sizes.get(name) for name in self._completing_types):
            types = " or ".join(self._completing_types)
            raise InvalidSpec("spec", f"needs a replica of type {types}: only their success completes the job")
        return specs

    @property
    def _completing_types(self) -> tuple[str, ...]:
        return tuple(self.completing or self.replica_types[-1:])

    def _build_groups(self, specs_by_type: Mapping[str, tuple[str, DLReplicaSpec]]) -> Iterator[ReplicaGroup]:
        completing_type = next(
            name for name in self._completing_types if name in specs_by_type and _replica_count(specs_by_type[name][1])
        )
        for name in self.replica_types:
            if name not in specs_by_type:
                continue
            path, replica = specs_by_type[name]
            info = inspect_pod_template(replica.template, f"{path}.template", "")
            first = replica.template["spec"]["containers"][0]["name"]
            ports = pod_templates.merge_ports(info, self.container_properties, first)
            yield ReplicaGroup(
                name=name,
                path=path,
                size=_replica_count(replica),
                requested_sizes={SizeRequester.SPEC: _replica_count(replica)},
                template=pod_templates.with_container_properties(replica.template, self.container_properties, ports),
                template_hash=hash_template(replica.template),
                ports=ports,
                complete_policy=EndPolicy.ALL if name == completing_type else EndPolicy.NONE,
                restart_rule=self._restart_rule(replica),
            )

    def _restart_rule(self, replica_spec: DLReplicaSpec) -> RestartRule:
        """Return the restart rule of a type: its own policy, else that of the template, else that of the kind."""
        template_policy = replica_spec.template["spec"].get("restartPolicy")
        is_policy = template_policy in list(ReplicaRestartPolicy)
        default = ReplicaRestartPolicy(template_policy) if is_policy else self.restart_policy
        return RestartRule(
            policy=ENGINE_RESTART_POLICIES[replica_spec.restart_policy or default],
            scope=replica_spec.restart_scope or self.restart_scope,
            limit=self.restart_limit if replica_spec.restart_limit is None else replica_spec.restart_limit,
        )


@dataclass(frozen=True)
class DLJobFramework(Framework):
    """The framework of a DLJob kind: its environment variables come from `get_environment_variables`."""

    dl_job: DLJob

    @property
    def name(self) -> str:
        """The unique name of the framework, `mxjob.mpba.fbk.eu`."""
        return f"{self.dl_job.kind}.{self.dl_job.group}".lower()

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """Return the variables that the plugin sets; raise InvalidSpec for any error of the plugin."""
        default_port = next(iter(pod_templates.named_ports(self.dl_job.container_properties)), "")
        name, index = rank.group.name, rank.index
        replica = DLReplica(job=job, type=name, index=index, attempt=rank.attempt, default_port_name=default_port)
        method = f"{type(self.dl_job).__name__}.get_environment_variables"
        try:
            variables = dict(self.dl_job.get_environment_variables(replica))
        except InvalidSpec:
            raise
        except Exception as problem:  # an error of a plugin must affect this job only
            raise InvalidSpec("spec", f"{method} failed for {name}-{index}: {problem!r}; fix the plugin") from None
        for variable, value in variables.items():
            if not isinstance(variable, str) or not isinstance(value, str):
                raise InvalidSpec("spec", f"{method} returned {variable!r}: {value!r} for {name}-{index}: not strings")
        return variables


def _replica_count(replica_spec: DLReplicaSpec) -> int:
    return 1 if replica_spec.replicas is None else replica_spec.replicas


def _check_types_unchanged(
    groups: tuple[ReplicaGroup, ...], specs_by_type: Mapping[str, tuple[str, DLReplicaSpec]], state: EngineState | None
) -> None:
    """Raise InvalidSpec if the types or templates of an active job changed: its replicas would differ."""
    active, advice = active_template_hashes(state), suspend_advice(RUN_POLICY_FIELD)
    current = {group.name: group.template_hash for group in groups}
    if active and (changed := sorted(active.keys() ^ current.keys())):
        raise InvalidSpec("spec", f"{', '.join(changed)} cannot be added or removed {advice}")
    for name, template_hash in active.items():
        if current[name] != template_hash:
            raise InvalidSpec(f"{specs_by_type[name][0]}.template", f"cannot change {advice}")


def _definition_errors(dl_job: DLJob) -> Iterator[str]:
    """Yield the errors in the definition of a kind."""
    if not isinstance(dl_job.job_type, str) or not _KIND_PATTERN.fullmatch(dl_job.job_type):
        yield f"job_type must be a kind such as MyJob, got {dl_job.job_type!r}"
    if not isinstance(dl_job.group, str) or not _API_GROUP_PATTERN.fullmatch(dl_job.group):
        yield f"group must be a domain such as example.com, got {dl_job.group!r}"
    if not isinstance(dl_job.replica_types, list | tuple) or not dl_job.replica_types:
        yield f"replica_types must list names such as ('master', 'worker'), got {dl_job.replica_types!r}"
        return
    for name in dl_job.replica_types:
        is_valid = isinstance(name, str) and _REPLICA_TYPE_PATTERN.fullmatch(name)
        if not is_valid or dl_job.replica_types.count(name) > 1:
            yield f"replica_types: {name!r} must be a unique name in lower case"
    for name in dl_job.completing:
        if name not in dl_job.replica_types:
            yield f"completing: {name!r} is not one of the replica_types"
    yield from pod_templates.container_property_errors(dl_job.container_properties)
    if type(dl_job).get_environment_variables is DLJob.get_environment_variables:
        yield "get_environment_variables(self, replica) is missing"
