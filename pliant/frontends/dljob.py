"""A kind with one class: name it, say which replicas there are and what each is told; all else is here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.errors import BrokenPlugin, InvalidSpec
from pliant.frontends.aitrainingjob_status import is_rejected_status, rejected_status
from pliant.frontends.crd import CustomKind, custom_resource_definition, structural
from pliant.frontends.dljob_replica import Replica
from pliant.frontends.dljob_status import rendered_status
from pliant.frontends.dljob_templates import ContainerProperties, dressed, faults_of, ports_of
from pliant.frontends.dljob_types import COLUMNS, MOST_MEMBERS, DLJobStatus, ReplicaSpec, Restarts, RunPolicy, Spec
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import owner_of, read_metadata
from pliant.frontends.naming import check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.reading import not_one_of, read
from pliant.frontends.spans import span
from pliant.frontends.templates import fingerprint, template_facts
from pliant.frontends.words import Spoken, Words
from pliant.model.framework import Framework, Rank
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, Naming, RestartPolicy, RestartRule, RestartScope
from pliant.model.state import EngineState, Phase, Requester

RUN_POLICY = "runPolicy"
RETRYABLE = frozenset(range(128, 256))
"""Exit codes that ExitCode restarts on: signals, and what programs choose up there."""
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_TYPE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RESTARTS = {
    Restarts.ALWAYS: RestartPolicy.ALWAYS,
    Restarts.ON_FAILURE: RestartPolicy.ALWAYS,
    Restarts.NEVER: RestartPolicy.NEVER,
    Restarts.EXIT_CODE: RestartPolicy.ON_NODE_FAIL_WITH_EXIT_CODE,
}


class DLJob(Spoken):
    """The base of kinds whose spec is a list of replicas; the first line of a subclass describes it."""

    words = Words(rendered=rendered_status, rejected=rejected_status, is_rejected=is_rejected_status)
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
    restart_policy: Restarts = Restarts.EXIT_CODE
    restart_scope: RestartScope = RestartScope.ALL
    restart_limit: int = 3
    naming: Naming = Naming()

    def __init__(self) -> None:
        if problem := next(_faults(self), None):
            raise BrokenPlugin(f"{type(self).__name__}: {problem}")

    def get_environment_variables(self, replica: Replica) -> Mapping[str, str]:
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
    def policy_field(self) -> str:
        """Where `suspend` is written."""
        return RUN_POLICY

    @property
    def contract(self) -> Framework:
        """What members are told, in the form that the engine asks for."""
        return Contract(self)

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        crd = custom_resource_definition(self._custom_kind)
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        types = schema["properties"]["spec"]["items"]["properties"]["replicaType"]
        said = f"one of {', '.join(self.replica_types)}, in upper or lower case"
        types["description"] = f"The part they play: {said}."
        rule = f"self.lowerAscii() in {list(self.replica_types)}"
        types["x-kubernetes-validations"] = [{"rule": rule, "message": f"must be {said}"}]
        schema["properties"][RUN_POLICY] = structural(RunPolicy)
        return crd

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        written = self._written(read(list[ReplicaSpec], raw.get("spec") or [], "spec"))
        run = read(RunPolicy, raw.get(RUN_POLICY), RUN_POLICY)
        groups = tuple(self._groups(written))
        state = remembered(status_in(raw))
        if not run.suspend:
            _check_unchanged(groups, written, state)
        check_member_names(metadata.key, {each.name: each.size for each in groups}, "spec", self.naming)
        job = Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, self._custom_kind),
            groups=groups,
            labels=metadata.labels,
            naming=self.naming,
            frameworks=(*self.frameworks, self.contract.name),
            complete_policy=EndPolicy.ANY,
            fail_policy=EndPolicy.ANY,
            clean=run.clean_pod_policy or CleanPolicy.RUNNING,
            restart_exit_codes=RETRYABLE,
            restart_limit=run.backoff_limit,
            is_suspended=run.suspend,
            time_limit=span(run.active_deadline_seconds),
            is_limited_from_start=True,
            time_to_live=span(run.ttl_seconds_after_finished),
            managed_by=run.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            order=order_in(metadata.annotations),
            state=state,
        )
        if state is None:
            for group in groups:  # what cannot be told to anybody is best known before the first pod
                self.contract.environment(job, Rank(group=group, index=0, attempt=0), "")
        return job

    @property
    def _custom_kind(self) -> CustomKind:
        return CustomKind(
            group=self.group,
            version=self.version,
            kind=self.kind,
            plural=self.plural,
            description=(self.__doc__ or "A training job.").splitlines()[0],
            spec=Spec,
            status=DLJobStatus,
            columns=COLUMNS,
        )

    def _written(self, replicas: list[ReplicaSpec]) -> dict[str, tuple[str, ReplicaSpec]]:
        """What is written of each type, and where."""
        found: dict[str, tuple[str, ReplicaSpec]] = {}
        for index, replica in enumerate(replicas):
            name, path = replica.replica_type.lower(), f"spec[{index}]"
            if name not in self.replica_types:
                raise InvalidSpec(
                    f"{path}.replicaType", not_one_of(replica.replica_type, list(self.replica_types))
                )
            if name in found:
                raise InvalidSpec(f"{path}.replicaType", f"{name} is there already, as {found[name][0]}")
            found[name] = (path, replica)
        sizes = {name: _size(replica) for name, (_, replica) in found.items()}
        if (number := sum(sizes.values())) > MOST_MEMBERS:
            raise InvalidSpec(
                "spec", f"there are {number} replicas, at most {MOST_MEMBERS} are possible in one job"
            )
        if not any(sizes.get(name) for name in self._completing):
            who = " or ".join(self._completing)
            raise InvalidSpec("spec", f"needs a replica of type {who}: nobody else's success ends the job")
        return found

    @property
    def _completing(self) -> tuple[str, ...]:
        return tuple(self.completing or self.replica_types[-1:])

    def _groups(self, written: Mapping[str, tuple[str, ReplicaSpec]]) -> Iterator[Group]:
        decides = next(name for name in self._completing if name in written and _size(written[name][1]))
        for name in self.replica_types:
            if name not in written:
                continue
            path, replica = written[name]
            facts = template_facts(replica.template, f"{path}.template", "")
            first = replica.template["spec"]["containers"][0]["name"]
            ports = ports_of(facts, self.container_properties, first)
            yield Group(
                name=name,
                size=_size(replica),
                requests={Requester.SPEC: _size(replica)},
                template=dressed(replica.template, self.container_properties, ports),
                fingerprint=fingerprint(replica.template),
                ports=ports,
                complete_policy=EndPolicy.ALL if name == decides else EndPolicy.NONE,
                restart=self._restart(replica),
            )

    def _restart(self, replica: ReplicaSpec) -> RestartRule:
        """What is written of restarts; else what the template says, done by the operator in the node's place."""
        template = replica.template["spec"].get("restartPolicy")
        said = Restarts(template) if template in list(Restarts) else self.restart_policy
        return RestartRule(
            policy=_RESTARTS[replica.restart_policy or said],
            scope=replica.restart_scope or self.restart_scope,
            limit=self.restart_limit if replica.restart_limit is None else replica.restart_limit,
        )


@dataclass(frozen=True)
class Contract(Framework):
    """The framework of a kind: what its class says about the environment."""

    owner: DLJob

    @property
    def name(self) -> str:
        """A word that no other kind has: `mxjob.mpba.fbk.eu`."""
        return f"{self.owner.kind}.{self.owner.group}".lower()

    def environment(self, job: Job, rank: Rank, container: str) -> Mapping[str, str]:
        """The variables of the kind's author; raises InvalidSpec for whatever goes wrong in getting them."""
        usual = next(iter(self.owner.container_properties.get("ports", {})), "")
        name, index = rank.group.name, rank.index
        replica = Replica(job=job, type=name, index=index, attempt=rank.attempt, usual_port=usual)
        method = f"{type(self.owner).__name__}.get_environment_variables"
        try:
            variables = dict(self.owner.get_environment_variables(replica))
        except InvalidSpec:
            raise
        except Exception as problem:  # somebody else's code: one job suffers, and is told
            raise InvalidSpec(
                "spec", f"{method} failed for {name}-{index}: {problem!r}; mend the plugin"
            ) from None
        for variable, value in variables.items():
            if not isinstance(variable, str) or not isinstance(value, str):
                raise InvalidSpec(
                    "spec", f"{method} gave {variable!r}: {value!r} to {name}-{index}, which is no text"
                )
        return variables


def _size(replica: ReplicaSpec) -> int:
    return 1 if replica.replicas is None else replica.replicas


def _check_unchanged(
    groups: tuple[Group, ...], written: Mapping[str, tuple[str, ReplicaSpec]], state: EngineState | None
) -> None:
    """Raise InvalidSpec if a job under way got other types or templates: its replicas would no longer be alike."""
    if state is None or state.verdict is not None or state.phase is Phase.SUSPENDED or state.phase.is_final:
        return
    made_from = {name: memory.template for name, memory in state.groups.items() if memory.template}
    advice = f"while the job is under way: set {RUN_POLICY}.suspend first, or undo the edit"
    present = {group.name: group.fingerprint for group in groups}
    if made_from and (changed := sorted(made_from.keys() ^ present.keys())):
        raise InvalidSpec("spec", f"{', '.join(changed)} cannot be added or removed {advice}")
    for name, template in made_from.items():
        if present[name] != template:
            raise InvalidSpec(f"{written[name][0]}.template", f"cannot change {advice}")


def _faults(kind: DLJob) -> Iterator[str]:
    """What the author of a kind must mend, in the words of the class."""
    if not _KIND.fullmatch(kind.job_type):
        yield f"job_type must be a kind such as MyJob, got {kind.job_type!r}"
    if not _DOMAIN.fullmatch(kind.group):
        yield f"group must be a domain such as example.com, got {kind.group!r}"
    if isinstance(kind.replica_types, str) or not kind.replica_types:
        yield f"replica_types must list names such as ('master', 'worker'), got {kind.replica_types!r}"
    for name in kind.replica_types:
        if not isinstance(name, str) or not _TYPE.fullmatch(name) or kind.replica_types.count(name) > 1:
            yield f"replica_types: {name!r} must be a word in lower case, and there once"
    for name in kind.completing:
        if name not in kind.replica_types:
            yield f"completing: {name!r} is none of the replica_types"
    yield from faults_of(kind.container_properties)
    if type(kind).get_environment_variables is DLJob.get_environment_variables:
        yield "get_environment_variables(self, replica) is missing"
