"""The members of an ElasticJob by type: their master says who they are, the resource what they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.templates import (
    MAIN,
    Template,
    check_priority,
    is_share,
    lacks_main,
    member_template,
    queue_labels,
)
from pliant.frontends.elasticjob.types import CHIEF, EVALUATOR, MASTER, PS, WORKER, ElasticJobSpec, ReplicaSpec
from pliant.frontends.reading import not_one_of
from pliant.frontends.templates import fingerprint
from pliant.model.job import EndPolicy, Group, Port, Steward
from pliant.model.state import Requester

TYPES = (WORKER, PS, CHIEF, EVALUATOR)
PORTS = {PS: 2222}
USUAL_PORT = 3333


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """The types of members a job has, and what is written of each."""

    spec: ElasticJobSpec
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    with_servers: bool
    """Whether there are parameter servers: then masters make one worker a chief, asked or not."""

    @property
    def replicas(self) -> dict[str, ReplicaSpec]:
        """What is written of each type, or follows from what is written of workers."""
        written = {name: each for name, each in self.spec.replica_specs.items() if name != MASTER}
        if not self.with_servers:
            return written
        borrowed = {name: ReplicaSpec() for name in (CHIEF, EVALUATOR) if name not in written}
        return {**written, **borrowed}


def groups_of(cast: Cast) -> tuple[Group, ...]:
    """A group for each type; raises InvalidSpec naming what cannot be used."""
    replicas = cast.replicas
    _check_types(replicas)
    return tuple(_group(name, each, cast) for name, each in replicas.items())


def warnings_of(cast: Cast) -> Iterator[str]:
    """What the author may have counted on, in vain."""
    for name, replica in cast.replicas.items():
        path = f"spec.replicaSpecs.{name}"
        if replica.template is not None and lacks_main(replica.template):
            first = replica.template["spec"]["containers"][0].get("name")
            yield f"{path}.template: none of several containers is named {MAIN}, so {first} is taken for it"
        if is_share(replica.priority):
            yield f"{path}.priority: a share is for masters that make pods themselves; pods of ours get no class"
        if replica.max_replicas is not None and (replica.replicas or 0) > replica.max_replicas:
            yield f"{path}.replicas ({replica.replicas}) is above maxReplicas: {replica.max_replicas} are the most"
        if replica.batch_scheduler:
            yield f"{path}.BatchScheduler is not read: write schedulerName into the template"
    if cast.with_servers and PS not in cast.replicas:
        yield "spec.replicaSpecs.ps: there are no parameter servers; if none are meant, say AllreduceStrategy"
    if cast.spec.envs:
        yield "spec.envs is not read: write env into the templates"


def _check_types(replicas: Mapping[str, ReplicaSpec]) -> None:
    for name in replicas:
        if name not in TYPES and name.lower() in (*TYPES, MASTER):
            raise InvalidSpec(f"spec.replicaSpecs.{name}", not_one_of(name, [*TYPES, MASTER]))
    if WORKER not in replicas:
        raise InvalidSpec(f"spec.replicaSpecs.{WORKER}", "is required: a job has workers")


def _group(name: str, replica: ReplicaSpec, cast: Cast) -> Group:
    path = f"spec.replicaSpecs.{name}"
    _check_bounds(replica, path)
    check_priority(replica.priority, path)
    template = member_template(_template_of(name, replica, cast), path, cast.annotations, replica.priority)
    main = template["spec"]["containers"][0].get("name", "")
    return Group(
        name=name,
        size=replica.replicas or 0,
        least=replica.min_replicas or 0,
        most=replica.max_replicas,
        is_elastic=True,
        steward=Steward.MASTER,
        requests={} if replica.replicas is None else {Requester.SPEC: replica.replicas},
        template=template,
        fingerprint=fingerprint(template),
        ports=(Port("grpc", PORTS.get(name, USUAL_PORT), main),),
        counted=frozenset({main}),
        complete_policy=EndPolicy.NONE,
        fail_policy=EndPolicy.NONE,
        labels=queue_labels(template, cast.labels),
    )


def _check_bounds(replica: ReplicaSpec, path: str) -> None:
    least, most = replica.min_replicas, replica.max_replicas
    if least is not None and most is not None and least > most:
        raise InvalidSpec(f"{path}.minReplicas", f"must be at most maxReplicas ({most}), got {least}")


def _template_of(name: str, replica: ReplicaSpec, cast: Cast) -> Template:
    if replica.template is not None:
        return replica.template
    worker = cast.spec.replica_specs.get(WORKER, ReplicaSpec()).template
    if name not in (CHIEF, EVALUATOR) or worker is None:
        raise InvalidSpec(f"spec.replicaSpecs.{name}.template", "is required: it is what its pods are made from")
    return worker
