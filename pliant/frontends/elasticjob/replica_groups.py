"""The members of an ElasticJob by type: their master says who they are, the resource what they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.pod_templates import (
    MAIN_CONTAINER,
    PodTemplate,
    build_pod_template,
    check_priority,
    is_priority_share,
    lacks_main_container,
    queue_labels,
)
from pliant.frontends.elasticjob.types import CHIEF, EVALUATOR, MASTER, PS, WORKER, ElasticJobSpec, ElasticReplicaSpec
from pliant.frontends.spec.decoding import invalid_choice_message
from pliant.frontends.spec.pod_templates import hash_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup
from pliant.model.state import SizeRequester

REPLICA_TYPES = (WORKER, PS, CHIEF, EVALUATOR)
PORT_BY_TYPE = {PS: 2222}
DEFAULT_PORT = 3333


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobContext:
    """The types of members a job has, and what is written of each."""

    spec: ElasticJobSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    has_parameter_servers: bool
    """Whether there are parameter servers: then masters make one worker a chief, asked or not."""

    @property
    def replica_specs(self) -> dict[str, ElasticReplicaSpec]:
        """What is written of each type, or follows from what is written of workers."""
        written = {name: each for name, each in self.spec.replica_specs.items() if name != MASTER}
        if not self.has_parameter_servers:
            return written
        borrowed = {name: ElasticReplicaSpec() for name in (CHIEF, EVALUATOR) if name not in written}
        return {**written, **borrowed}


def build_groups(context: ElasticJobContext) -> tuple[ReplicaGroup, ...]:
    """A group for each type; raises InvalidSpec naming what cannot be used."""
    replicas = context.replica_specs
    _check_replica_types(replicas)
    return tuple(_build_group(name, each, context) for name, each in replicas.items())


def spec_warnings(context: ElasticJobContext) -> Iterator[str]:
    """What the author may have counted on, in vain."""
    for name, replica in context.replica_specs.items():
        path = f"spec.replicaSpecs.{name}"
        if replica.template is not None and lacks_main_container(replica.template):
            first = replica.template["spec"]["containers"][0].get("name")
            yield f"{path}.template: none of several containers is named {MAIN_CONTAINER}, so {first} is taken for it"
        if is_priority_share(replica.priority):
            yield f"{path}.priority: a share is for masters that make pods themselves; pods of ours get no class"
        if replica.max_replicas is not None and (replica.replicas or 0) > replica.max_replicas:
            yield f"{path}.replicas ({replica.replicas}) is above maxReplicas: {replica.max_replicas} are the most"
        if replica.batch_scheduler:
            yield f"{path}.BatchScheduler is not read: write schedulerName into the template"
    if context.has_parameter_servers and PS not in context.replica_specs:
        yield "spec.replicaSpecs.ps: there are no parameter servers; if none are meant, say AllreduceStrategy"
    if context.spec.envs:
        yield "spec.envs is not read: write env into the templates"


def _check_replica_types(replica_specs: Mapping[str, ElasticReplicaSpec]) -> None:
    for name in replica_specs:
        if name not in REPLICA_TYPES and name.lower() in (*REPLICA_TYPES, MASTER):
            raise InvalidSpec(f"spec.replicaSpecs.{name}", invalid_choice_message(name, [*REPLICA_TYPES, MASTER]))
    if WORKER not in replica_specs:
        raise InvalidSpec(f"spec.replicaSpecs.{WORKER}", "is required: a job has workers")


def _build_group(name: str, replica: ElasticReplicaSpec, context: ElasticJobContext) -> ReplicaGroup:
    path = f"spec.replicaSpecs.{name}"
    _check_bounds(replica, path)
    check_priority(replica.priority, path)
    template = build_pod_template(_pod_template(name, replica, context), path, context.annotations, replica.priority)
    main = template["spec"]["containers"][0].get("name", "")
    return ReplicaGroup(
        name=name,
        size=replica.replicas or 0,
        min_size=replica.min_replicas or 0,
        max_size=replica.max_replicas,
        is_elastic=True,
        is_master_managed=True,
        requested_sizes={} if replica.replicas is None else {SizeRequester.SPEC: replica.replicas},
        template=template,
        template_hash=hash_template(template),
        ports=(Port("grpc", PORT_BY_TYPE.get(name, DEFAULT_PORT), main),),
        main_containers=frozenset({main}),
        complete_policy=EndPolicy.NONE,
        fail_policy=EndPolicy.NONE,
        labels=queue_labels(template, context.labels),
    )


def _check_bounds(replica: ElasticReplicaSpec, path: str) -> None:
    least, most = replica.min_replicas, replica.max_replicas
    if least is not None and most is not None and least > most:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({most}), got {least}")


def _pod_template(name: str, replica: ElasticReplicaSpec, context: ElasticJobContext) -> PodTemplate:
    if replica.template is not None:
        return replica.template
    worker = context.spec.replica_specs.get(WORKER, ElasticReplicaSpec()).template
    if name not in (CHIEF, EVALUATOR) or worker is None:
        raise InvalidSpec(f"spec.replicaSpecs.{name}.template", "is required: it is what its pods are made from")
    return worker
