"""Build the replica groups of an ElasticJob; the master decides their membership, the spec their templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob import pod_templates
from pliant.frontends.elasticjob.types import (
    CHIEF,
    EVALUATOR,
    MASTER_REPLICA_TYPE,
    PS,
    WORKER,
    ElasticJobSpec,
    ElasticReplicaSpec,
)
from pliant.frontends.spec.decoding import invalid_choice_message, list_ignored_fields
from pliant.frontends.spec.pod_templates import hash_template
from pliant.model.job import EndPolicy, Port, ReplicaGroup
from pliant.model.state import SizeRequester

REPLICA_TYPES = (WORKER, PS, CHIEF, EVALUATOR)
DEFAULT_PORT_BY_TYPE = {PS: 2222}
DEFAULT_PORT = 3333


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticJobContext:
    """The parts of an ElasticJob that its replica groups are built from."""

    spec: ElasticJobSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    has_parameter_servers: bool
    """Whether the strategy is ParameterServerStrategy: then masters may create a chief and evaluators."""

    @property
    def replica_specs(self) -> dict[str, ElasticReplicaSpec]:
        """The replica specs without the master, with the implicit chief and evaluator."""
        specs = {name: each for name, each in self.spec.replica_specs.items() if name != MASTER_REPLICA_TYPE}
        implicit = {name: ElasticReplicaSpec() for name in (CHIEF, EVALUATOR) if name not in specs}
        return {**specs, **implicit} if self.has_parameter_servers else specs


def build_groups(context: ElasticJobContext) -> tuple[ReplicaGroup, ...]:
    """Return one group per replica type; raise InvalidSpec that names the invalid field."""
    for name in context.replica_specs:
        if name not in REPLICA_TYPES and name.lower() in (*REPLICA_TYPES, MASTER_REPLICA_TYPE):
            raise InvalidSpec(
                f"spec.replicaSpecs.{name}", invalid_choice_message(name, [*REPLICA_TYPES, MASTER_REPLICA_TYPE])
            )
    if WORKER not in context.replica_specs:
        raise InvalidSpec(f"spec.replicaSpecs.{WORKER}", "is required: a job has workers")
    return tuple(_build_group(name, each, context) for name, each in context.replica_specs.items())


def spec_warnings(context: ElasticJobContext) -> Iterator[str]:
    """Yield warnings about fields that have no effect or an unexpected one."""
    for name, replica in context.replica_specs.items():
        path = f"spec.replicaSpecs.{name}"
        if replica.template is not None and pod_templates.has_ambiguous_main_container(replica.template):
            first = replica.template["spec"]["containers"][0].get("name")
            yield f"{path}.template: no container is named main; {first} is used as the main container"
        if pod_templates.is_priority_fraction(replica.priority):
            yield f"{path}.priority: a fraction applies to pods that a master creates; other pods get no class"
        if replica.max_replicas is not None and (replica.replicas or 0) > replica.max_replicas:
            yield f"{path}.replicas ({replica.replicas}) exceeds maxReplicas and is limited to {replica.max_replicas}"
    if context.has_parameter_servers and PS not in context.replica_specs:
        yield "spec.replicaSpecs.ps: is missing; without parameter servers, set AllreduceStrategy"
    yield from list_ignored_fields(context.spec, "spec")


def _build_group(name: str, replica: ElasticReplicaSpec, context: ElasticJobContext) -> ReplicaGroup:
    path = f"spec.replicaSpecs.{name}"
    min_size, max_size = replica.min_replicas or 0, replica.max_replicas
    if max_size is not None and min_size > max_size:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({max_size}), got {min_size}")
    pod_templates.check_priority(replica.priority, path)
    template = pod_templates.build_pod_template(_pod_template(name, replica, context), path, context.annotations)
    main = template["spec"]["containers"][0].get("name", "")
    return ReplicaGroup(
        name=name,
        size=replica.replicas or 0,
        min_size=min_size,
        max_size=max_size,
        is_elastic=True,
        is_master_managed=True,
        is_server=name == PS,
        path=path,
        requested_sizes={} if replica.replicas is None else {SizeRequester.SPEC: replica.replicas},
        priority_class=replica.priority if replica.priority in pod_templates.PRIORITY_CLASSES else None,
        template=template,
        template_hash=hash_template(template),
        ports=(Port("grpc", DEFAULT_PORT_BY_TYPE.get(name, DEFAULT_PORT), main),),
        main_containers=frozenset({main}),
        complete_policy=EndPolicy.NONE,
        fail_policy=EndPolicy.NONE,
        labels=pod_templates.gang_and_queue_labels(template, context.labels),
    )


def _pod_template(name: str, replica: ElasticReplicaSpec, context: ElasticJobContext) -> pod_templates.PodTemplate:
    if replica.template is not None:
        return replica.template
    worker = context.spec.replica_specs.get(WORKER, ElasticReplicaSpec()).template
    if name not in (CHIEF, EVALUATOR) or worker is None:
        raise InvalidSpec(f"spec.replicaSpecs.{name}.template", "is required")
    return worker
