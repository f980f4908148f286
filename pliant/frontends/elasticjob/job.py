"""ElasticJob of elastic.iml.github.io/v1alpha1: from a raw object to a job, and back to its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn, build_crd
from pliant.frontends.elasticjob.master import ElasticJobMaster, build_master
from pliant.frontends.elasticjob.pod_templates import GANG_KEY_PREFIXES
from pliant.frontends.elasticjob.replica_groups import ElasticJobContext, build_groups, spec_warnings
from pliant.frontends.elasticjob.status import (
    is_rejected_status,
    render_rejection,
    render_status,
    state_from_external_status,
)
from pliant.frontends.elasticjob.types import (
    ALLREDUCE_STRATEGY,
    CHIEF,
    CUSTOM_STRATEGY,
    MASTER,
    PARAMETER_SERVER_STRATEGY,
    WORKER,
    ElasticJobSpec,
    ElasticJobStatus,
)
from pliant.frontends.frontend import RenderingFrontend, StatusRenderer
from pliant.frontends.scaleplan import ScalePlanFrontend
from pliant.frontends.spec.decoding import decode, invalid_choice_message, quote_json
from pliant.frontends.spec.metadata import JobMetadata, owner_of, parse_end_request, read_metadata
from pliant.frontends.spec.pod_names import MAX_SERVICE_NAME_CHARS, check_pod_names
from pliant.frontends.spec.quantities import normalize_quantity
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.model.job import CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup

KIND = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ElasticJob",
    plural="elasticjobs",
    description="A training job with a master of its own, which says who its members are.",
    spec_type=ElasticJobSpec,
    status_type=ElasticJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(
            name="Workers", type="string", json_path=".status.workers", description="Workers that run, of all."
        ),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Plan", type="string", json_path=".status.scalePlan", priority=1),
        PrinterColumn(name="Message", type="string", json_path=".status.message", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.replicaSpecs.worker.replicas", status_path=".status.replicas", selector_path=".status.selector"
    ),
)

JOB_LABEL = "elasticjob.dlrover/name"
TYPE_LABEL = "elasticjob.dlrover/replica-type"
ID_LABEL = "elasticjob.dlrover/replica-index"
RANK_LABEL = "elasticjob.dlrover/rank-index"
RELAUNCH_LABEL = "elasticjob.dlrover/relaunch-count"

MASTER_SERVICE_NAME = "elasticjob-{job}-dlrover-master"
POD_NAME_FORMAT = "{job}-edljob-{group}-{index}"
CLEAN_ANNOTATION = "pliant/clean"
_CLEAN_POLICIES = {
    "": CleanPodPolicy.ALL,
    "all": CleanPodPolicy.ALL,
    "running": CleanPodPolicy.RUNNING,
    "none": CleanPodPolicy.NONE,
}


class ElasticJobFrontend(RenderingFrontend):
    """The front end of ElasticJob."""

    renderer = StatusRenderer(render=render_status, render_rejection=render_rejection, is_rejected=is_rejected_status)
    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    run_policy_path = "spec"
    plan_frontend = ScalePlanFrontend()
    external_pods_label = JOB_LABEL

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return build_crd(KIND)

    def parse(self, raw: Mapping[str, Any]) -> Job:
        """The job a raw object asks for; raises InvalidSpec naming the field that cannot be used."""
        metadata = read_metadata(raw)
        spec = decode(ElasticJobSpec, raw.get("spec"), "spec")
        _check_resource_limits(spec)
        master = build_master(metadata, spec)
        strategy = _distribution_strategy(spec, master)
        cast = ElasticJobContext(
            spec=spec,
            labels=metadata.labels,
            annotations=metadata.annotations,
            has_parameter_servers=strategy == PARAMETER_SERVER_STRATEGY,
        )
        groups = (master.group, *build_groups(cast))
        naming = _pod_naming(groups)
        _check_pod_names(metadata, groups, naming)
        status = raw_status(raw)
        return Job(
            key=metadata.key,
            owner=owner_of(raw, metadata, KIND),
            groups=groups,
            labels={key: each for key, each in metadata.labels.items() if not key.startswith(GANG_KEY_PREFIXES)},
            naming=naming,
            frameworks=("dlrover",),
            framework_options={
                "uses_pliant_master": master.is_builtin,
                "strategy": strategy,
                "service_type": metadata.annotations.get("service_type", "").strip() or "grpc",
                "elastic_mode": metadata.annotations.get("training_elastic_mode", "").strip(),
                "has_implicit_chief": CHIEF not in spec.replica_specs,
            },
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=_clean_pod_policy(metadata.annotations),
            is_suspended=spec.suspend or spec.suspended,
            end_request=parse_end_request(metadata.annotations),
            managed_by=spec.managed_by,
            created_at=metadata.creation_timestamp,
            is_deleting=metadata.deletion_timestamp is not None,
            scalable_group=WORKER,
            warnings=tuple(spec_warnings(cast)),
            state=load_state(status) or state_from_external_status(status, metadata.creation_timestamp),
        )


def _distribution_strategy(spec: ElasticJobSpec, master: ElasticJobMaster) -> str:
    """By which strategy members train; a master of somebody else may know one more."""
    written = spec.distribution_strategy or PARAMETER_SERVER_STRATEGY
    known = [PARAMETER_SERVER_STRATEGY, ALLREDUCE_STRATEGY]
    if written in known or (written == CUSTOM_STRATEGY and not master.is_builtin):
        return written
    raise InvalidSpec("spec.distributionStrategy", invalid_choice_message(written, known))


def _check_resource_limits(spec: ElasticJobSpec) -> None:
    for name, amount in spec.resource_limits.items():
        if normalize_quantity(amount) is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {quote_json(amount)}"
            raise InvalidSpec(f"spec.resourceLimits.{name}", problem)


def _clean_pod_policy(annotations: Mapping[str, str]) -> CleanPodPolicy:
    word = annotations.get(CLEAN_ANNOTATION, "").strip().lower()
    if word not in _CLEAN_POLICIES:
        raise InvalidSpec(
            f"metadata.annotations.{CLEAN_ANNOTATION}",
            invalid_choice_message(word, [each for each in _CLEAN_POLICIES if each]),
        )
    return _CLEAN_POLICIES[word]


def _pod_naming(groups: Iterable[ReplicaGroup]) -> Naming:
    """Names and labels by which masters find their members, and members their master."""
    members = {group.name: POD_NAME_FORMAT for group in groups if not group.is_master}
    return Naming(
        pod=POD_NAME_FORMAT,
        pod_overrides={MASTER: f"{MASTER_SERVICE_NAME}-{{index}}"},
        service_overrides={MASTER: MASTER_SERVICE_NAME, **members},
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


def _check_pod_names(metadata: JobMetadata, groups: tuple[ReplicaGroup, ...], naming: Naming) -> None:
    members = {group.name: max(group.size, group.max_size or 0) for group in groups if not group.is_master}
    check_pod_names(metadata.key, members, "spec.replicaSpecs", naming)
    service = MASTER_SERVICE_NAME.format(job=metadata.name)
    if (over := len(service) - MAX_SERVICE_NAME_CHARS) > 0:
        problem = (
            f'is too long: "{service}" has {len(service)} characters, a service name at most {MAX_SERVICE_NAME_CHARS}'
        )
        raise InvalidSpec("metadata.name", f"{problem}; make it shorter by {over}")
