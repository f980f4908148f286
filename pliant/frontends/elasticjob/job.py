"""Parse an ElasticJob of elastic.iml.github.io/v1alpha1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CrdScalePaths, CustomKind, PrinterColumn
from pliant.frontends.edit_rules import EditRules
from pliant.frontends.elasticjob import status
from pliant.frontends.elasticjob.master import ElasticJobMaster, build_master
from pliant.frontends.elasticjob.pod_templates import GANG_KEY_PREFIXES
from pliant.frontends.elasticjob.replica_groups import ElasticJobContext, build_groups, spec_warnings
from pliant.frontends.elasticjob.types import (
    ALLREDUCE_STRATEGY,
    CHIEF,
    CUSTOM_STRATEGY,
    MASTER_REPLICA_TYPE,
    PARAMETER_SERVER_STRATEGY,
    WORKER,
    ElasticJobSpec,
    ElasticJobStatus,
    distribution_strategy,
)
from pliant.frontends.frontend import Frontend
from pliant.frontends.scaleplan import ScalePlanFrontend
from pliant.frontends.spec.decoding import abbreviate_json, decode, invalid_choice_message
from pliant.frontends.spec.metadata import (
    MAX_SERVICE_NAME_CHARS,
    JobMetadata,
    check_service_names,
    job_fields_from_metadata,
    read_metadata,
    service_name_too_long_message,
    with_job_service,
)
from pliant.frontends.spec.quantities import normalize_quantity
from pliant.model.job import ALL_REPLICAS, CleanPodPolicy, EndPolicy, Job, Naming, ReplicaGroup
from pliant.model.state import EngineState

KIND_DEFINITION = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ElasticJob",
    description="A training job whose own master controls its membership.",
    spec_type=ElasticJobSpec,
    status_type=ElasticJobStatus,
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Workers", type="string", json_path=".status.workers", description="Ready workers."),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Plan", type="string", json_path=".status.scalePlan", priority=1),
        PrinterColumn(name="Message", type="string", json_path=".status.message", priority=1),
    ),
    scale_paths=CrdScalePaths(
        spec_path=".spec.replicaSpecs.worker.replicas", status_path=".status.replicas", selector_path=".status.selector"
    ),
    # Templates may change: the master creates new pods from the current ones.
    rules=EditRules(
        run_policy_path="spec", suspend_fields=("suspend", "suspended"), end_time_path="status.status.completionTime"
    ).for_managed_by(),
)

JOB_LABEL = "elasticjob.dlrover/name"
REPLICA_TYPE_LABEL = "elasticjob.dlrover/replica-type"
MEMBER_ID_LABEL = "elasticjob.dlrover/replica-index"
RANK_LABEL = "elasticjob.dlrover/rank-index"
RELAUNCH_LABEL = "elasticjob.dlrover/relaunch-count"

MASTER_SERVICE_NAME_FORMAT = "elasticjob-{job}-dlrover-master"
POD_NAME_FORMAT = "{job}-edljob-{group}-{index}"
CLEAN_POD_POLICY_ANNOTATION = "pliant/clean"
_CLEAN_POLICIES = {"all": CleanPodPolicy.ALL, "running": CleanPodPolicy.RUNNING, "none": CleanPodPolicy.NONE}


class ElasticJobFrontend(Frontend):
    custom_kind = KIND_DEFINITION
    render_status = staticmethod(status.render_status)
    add_validation_error = staticmethod(status.add_validation_error)
    has_validation_error = staticmethod(status.has_validation_error)
    adopt_status = staticmethod(status.adopt_external_status)
    run_policy_path = "spec"
    plan_frontend = ScalePlanFrontend()
    master_pods_job_label = JOB_LABEL

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec = decode(ElasticJobSpec, raw.get("spec"), "spec")
        _check_resource_limits(spec)
        master = build_master(metadata, spec)
        strategy = _distribution_strategy(spec, master)
        context = ElasticJobContext(
            spec=spec,
            labels=metadata.labels,
            annotations=metadata.annotations,
            has_parameter_servers=strategy == PARAMETER_SERVER_STRATEGY,
        )
        groups = (master.group, *build_groups(context))
        naming = with_job_service(_pod_naming(groups), groups, metadata, state, _own_services(groups))
        _check_pod_names(metadata, groups, naming)
        job_labels = {key: each for key, each in metadata.labels.items() if not key.startswith(GANG_KEY_PREFIXES)}
        return Job(
            # Kueue does not know ElasticJobs, so each pod is in the queue, as with DLRover's operator.
            **job_fields_from_metadata(
                raw, replace(metadata, labels=job_labels), KIND_DEFINITION, are_pods_queued=True
            ),
            groups=groups,
            master=master.definition,
            naming=naming,
            frameworks=("dlrover",),
            framework_options={
                "strategy": strategy,
                "service_type": metadata.annotations.get("service_type", "").strip() or "grpc",
                "elastic_mode": metadata.annotations.get("training_elastic_mode", "").strip(),
                "has_implicit_chief": CHIEF not in spec.replica_specs,
            },
            complete_policy=EndPolicy.ALL,
            fail_policy=EndPolicy.ANY,
            clean_pod_policy=_clean_pod_policy(metadata.annotations),
            is_suspended=spec.suspend or spec.suspended,
            managed_by=spec.managed_by,
            scalable_group=WORKER,
            warnings=tuple(spec_warnings(context)),
        )


def _distribution_strategy(spec: ElasticJobSpec, master: ElasticJobMaster) -> str:
    strategy = distribution_strategy(spec)
    builtin_strategies = [PARAMETER_SERVER_STRATEGY, ALLREDUCE_STRATEGY]
    if strategy in builtin_strategies or (strategy == CUSTOM_STRATEGY and not master.is_builtin):
        return strategy
    raise InvalidSpec("spec.distributionStrategy", invalid_choice_message(strategy, builtin_strategies))


def _check_resource_limits(spec: ElasticJobSpec) -> None:
    for name, amount in spec.resource_limits.items():
        if normalize_quantity(amount) is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {abbreviate_json(amount)}"
            raise InvalidSpec(f"spec.resourceLimits.{name}", problem)


def _clean_pod_policy(annotations: Mapping[str, str]) -> CleanPodPolicy:
    value = annotations.get(CLEAN_POD_POLICY_ANNOTATION, "").strip().lower() or "all"
    if value not in _CLEAN_POLICIES:
        message = invalid_choice_message(value, list(_CLEAN_POLICIES))
        raise InvalidSpec(f"metadata.annotations.{CLEAN_POD_POLICY_ANNOTATION}", message)
    return _CLEAN_POLICIES[value]


def _pod_naming(groups: Iterable[ReplicaGroup]) -> Naming:
    """Return the names and labels by which a DLRover master and its replicas find each other."""
    replica_services = {group.name: POD_NAME_FORMAT for group in groups if not group.is_master}
    return Naming(
        pod=POD_NAME_FORMAT,
        pod_overrides={MASTER_REPLICA_TYPE: f"{MASTER_SERVICE_NAME_FORMAT}-{{index}}"},
        service_overrides={MASTER_REPLICA_TYPE: MASTER_SERVICE_NAME_FORMAT, **replica_services},
        labels={
            "app": "dlrover",
            JOB_LABEL: "{job}",
            REPLICA_TYPE_LABEL: "{group}",
            MEMBER_ID_LABEL: "{index}",
            RANK_LABEL: "{rank}",
            RELAUNCH_LABEL: "{relaunches}",
        },
        type_label=REPLICA_TYPE_LABEL,
        id_label=MEMBER_ID_LABEL,
        rank_label=RANK_LABEL,
    )


def _own_services(groups: Iterable[ReplicaGroup]) -> dict[str, int]:
    """Return how many replicas of each group have a service of their own.

    DLRover's masters know the parameter servers by these names, and the first worker hosts the rendezvous.
    """
    return {group.name: 1 if group.name == WORKER else ALL_REPLICAS for group in groups}


def _check_pod_names(metadata: JobMetadata, groups: tuple[ReplicaGroup, ...], naming: Naming) -> None:
    max_sizes = {group.name: max(group.size, group.max_size or 0) for group in groups if not group.is_master}
    check_service_names(metadata.key, max_sizes, "spec.replicaSpecs", naming)
    service = MASTER_SERVICE_NAME_FORMAT.format(job=metadata.name)
    if (excess := len(service) - MAX_SERVICE_NAME_CHARS) > 0:
        raise InvalidSpec("metadata.name", f"{service_name_too_long_message(service)}; shorten it by {excess}")
