"""ElasticJob of elastic.iml.github.io/v1alpha1: from a raw object to a job, and back to its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import Column, CustomKind, ScalePaths, custom_resource_definition
from pliant.frontends.elasticjob.master import Master, master_of
from pliant.frontends.elasticjob.roles import Cast, groups_of, warnings_of
from pliant.frontends.elasticjob.status import inherited, is_rejected_status, rejected_status, rendered_status
from pliant.frontends.elasticjob.templates import GANGS
from pliant.frontends.elasticjob.types import (
    ALLREDUCE,
    CHIEF,
    CUSTOM,
    MASTER,
    PARAMETER_SERVERS,
    WORKER,
    ElasticJobSpec,
    ElasticJobStatus,
)
from pliant.frontends.memory import remembered, status_in
from pliant.frontends.metadata import Metadata, owner_of, read_metadata
from pliant.frontends.naming import LONGEST, check_member_names
from pliant.frontends.orders import order_in
from pliant.frontends.quantities import amount_text
from pliant.frontends.reading import not_one_of, quoted, read
from pliant.frontends.scaleplan import ScalePlan
from pliant.frontends.words import Spoken, Words
from pliant.model.job import CleanPolicy, EndPolicy, Group, Job, Naming

KIND = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ElasticJob",
    plural="elasticjobs",
    description="A training job with a master of its own, which says who its members are.",
    spec=ElasticJobSpec,
    status=ElasticJobStatus,
    columns=(
        Column(name="Phase", type="string", path=".status.phase"),
        Column(name="Workers", type="string", path=".status.workers", description="Workers that run, of all."),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
        Column(name="Plan", type="string", path=".status.scalePlan", priority=1),
        Column(name="Message", type="string", path=".status.message", priority=1),
    ),
    scale=ScalePaths(
        spec=".spec.replicaSpecs.worker.replicas", status=".status.replicas", selector=".status.selector"
    ),
)

JOB_LABEL = "elasticjob.dlrover/name"
TYPE_LABEL = "elasticjob.dlrover/replica-type"
ID_LABEL = "elasticjob.dlrover/replica-index"
RANK_LABEL = "elasticjob.dlrover/rank-index"
RELAUNCH_LABEL = "elasticjob.dlrover/relaunch-count"

MASTER_SERVICE = "elasticjob-{job}-dlrover-master"
MEMBER = "{job}-edljob-{group}-{index}"
CLEAN = "pliant/clean"
_CLEAN = {"": CleanPolicy.ALL, "all": CleanPolicy.ALL, "running": CleanPolicy.RUNNING, "none": CleanPolicy.NONE}


class ElasticJob(Spoken):
    """The front end of ElasticJob."""

    words = Words(rendered=rendered_status, rejected=rejected_status, is_rejected=is_rejected_status)
    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    policy_field = "spec"
    plans = ScalePlan()
    foreign_pods = JOB_LABEL

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return custom_resource_definition(KIND)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec = read(ElasticJobSpec, raw.get("spec"), "spec")
        _check_limits(spec)
        master = master_of(metadata, spec)
        strategy = _strategy(spec, master)
        cast = Cast(
            spec=spec,
            labels=metadata.labels,
            annotations=metadata.annotations,
            with_servers=strategy == PARAMETER_SERVERS,
        )
        groups = (master.group, *groups_of(cast))
        naming = _naming(groups)
        _check_names(metadata, groups, naming)
        status = status_in(raw)
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels={key: each for key, each in metadata.labels.items() if not key.startswith(GANGS)},
            naming=naming,
            frameworks=("dlrover",),
            options={
                "own_master": master.is_ours,
                "strategy": strategy,
                "service_type": metadata.annotations.get("service_type", "").strip() or "grpc",
                "elastic_mode": metadata.annotations.get("training_elastic_mode", "").strip(),
                "lends_chief": CHIEF not in spec.replica_specs,
            },
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean=_clean(metadata.annotations),
            is_suspended=spec.suspend or spec.suspended,
            order=order_in(metadata.annotations),
            managed_by=spec.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            elastic=WORKER,
            warnings=tuple(warnings_of(cast)),
            state=remembered(status) or inherited(status, metadata.creation_timestamp),
        )


def _strategy(spec: ElasticJobSpec, master: Master) -> str:
    """By which strategy members train; a master of somebody else may know one more."""
    written = spec.distribution_strategy or PARAMETER_SERVERS
    known = [PARAMETER_SERVERS, ALLREDUCE]
    if written in known or (written == CUSTOM and not master.is_ours):
        return written
    raise InvalidSpec("spec.distributionStrategy", not_one_of(written, known))


def _check_limits(spec: ElasticJobSpec) -> None:
    for name, amount in spec.resource_limits.items():
        if amount_text(amount) is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {quoted(amount)}"
            raise InvalidSpec(f"spec.resourceLimits.{name}", problem)


def _clean(annotations: Mapping[str, str]) -> CleanPolicy:
    word = annotations.get(CLEAN, "").strip().lower()
    if word not in _CLEAN:
        raise InvalidSpec(f"metadata.annotations.{CLEAN}", not_one_of(word, [each for each in _CLEAN if each]))
    return _CLEAN[word]


def _naming(groups: Iterable[Group]) -> Naming:
    """Names and labels by which masters find their members, and members their master."""
    members = {group.name: MEMBER for group in groups if not group.is_control}
    return Naming(
        pod=MEMBER,
        pods={MASTER: f"{MASTER_SERVICE}-{{index}}"},
        services={MASTER: MASTER_SERVICE, **members},
        labels={
            "app": "dlrover",
            JOB_LABEL: "{job}",
            TYPE_LABEL: "{group}",
            ID_LABEL: "{index}",
            RANK_LABEL: "{rank}",
            RELAUNCH_LABEL: "{relaunches}",
        },
        type_label=TYPE_LABEL,
        id_label=ID_LABEL,
        rank_label=RANK_LABEL,
    )


def _check_names(metadata: Metadata, groups: tuple[Group, ...], naming: Naming) -> None:
    members = {group.name: max(group.size, group.most or 0) for group in groups if not group.is_control}
    check_member_names(metadata.key, members, "spec.replicaSpecs", naming)
    service = MASTER_SERVICE.format(job=metadata.name)
    if (over := len(service) - LONGEST) > 0:
        problem = f'is too long: "{service}" has {len(service)} characters, a service name at most {LONGEST}'
        raise InvalidSpec("metadata.name", f"{problem}; make it shorter by {over}")
