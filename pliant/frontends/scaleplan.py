"""ScalePlan of elastic.iml.github.io/v1alpha1: membership changes requested for an ElasticJob."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct, field

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, PrinterColumn, build_crd, field_doc
from pliant.frontends.fields import MAX_REPLICAS_PER_JOB, GroupSize
from pliant.frontends.frontend import PlanFrontend
from pliant.frontends.spec.decoding import abbreviate_json, decode
from pliant.frontends.spec.metadata import DEFAULT_CREATION_TIME
from pliant.frontends.spec.quantities import normalize_quantity
from pliant.frontends.status.engine_state import parse_time, raw_status, to_json_data
from pliant.model.job import JobKey
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase, PlanPodRequest, PlanStatus, ScalePlan
from pliant.model.state import Timestamp

PodNumber = Annotated[int, Meta(ge=0, le=10**9 - 1, extra_json_schema={"format": "int32"})]
PodResource = Annotated[
    dict[str, Any], field_doc("Resource requests and limits of new pods: cpu, memory, …", nullable=True)
]


class ScalePlanGroup(Struct, frozen=True, kw_only=True, rename="camel"):
    """Desired replicas of one type."""

    replicas: Annotated[GroupSize | None, field_doc("Number of replicas. Default: unchanged.")] = None
    resource: PodResource = {}


class ScalePlanPod(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod to create, remove or migrate."""

    name: Annotated[str, field_doc("Name of an existing pod.")] = ""
    id: Annotated[PodNumber | None, field_doc("ID of the pod among the pods of its type. IDs are not reused.")] = None
    type: Annotated[str, field_doc("worker, ps, chief or evaluator. Default: derived from the name.")] = ""
    rank_index: Annotated[PodNumber | None, field_doc("Rank of the pod. A replacement gets the same rank.")] = None
    service: Annotated[str | None, field_doc("Address of the pod as host:port.")] = None
    resource: PodResource = {}


class ScalePlanSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """Specification of the membership changes."""

    owner_job: Annotated[str, field_doc("Name of the ElasticJob.")] = ""
    reason: Annotated[str, field_doc("Human-readable reason for the plan, shown in events and statuses.")] = ""
    replica_resource_specs: Annotated[dict[str, ScalePlanGroup], field_doc("Replicas by type.", nullable=True)] = {}
    create_pods: Annotated[list[ScalePlanPod], field_doc("Pods to create.", nullable=True)] = []
    remove_pods: Annotated[list[ScalePlanPod], field_doc("Pods to delete.", nullable=True)] = []
    migrate_pods: Annotated[
        list[ScalePlanPod], field_doc("Pods to replace: each is deleted once its replacement runs.", nullable=True)
    ] = []
    ps_hosts: Annotated[list[str], field_doc("Addresses of the parameter servers by rank.", nullable=True)] = []
    manual_scaling: Annotated[bool, field_doc("Ignored; set the label scale-type.")] = False


class ScalePlanStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Most recently observed status of the plan."""

    phase: Annotated[str, field_doc("Created, Pending, Scaling, Succeeded or Failed.")] = ""
    message: Annotated[str, field_doc("Human-readable explanation of the phase.")] = ""
    create_time: Annotated[Timestamp | None, field_doc("Time when the operator first processed the plan.")] = None
    finish_time: Annotated[Timestamp | None, field_doc("Time when the plan succeeded or failed.")] = None
    observed_generation: Annotated[
        int, field_doc("Generation of the spec that the operator executes; later edits have no effect.")
    ] = 0
    job_uid: Annotated[str, field_doc("UID of the job that the operator executes the plan for.")] = field(
        default="", name="jobUID"
    )


KIND_DEFINITION = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ScalePlan",
    description="Membership changes requested for an ElasticJob by its master or by a user.",
    spec_type=ScalePlanSpec,
    status_type=ScalePlanStatus,
    conditions_path="",
    printer_columns=(
        PrinterColumn(name="Phase", type="string", json_path=".status.phase"),
        PrinterColumn(name="Job", type="string", json_path=".spec.ownerJob"),
        PrinterColumn(name="Reason", type="string", json_path=".spec.reason"),
        PrinterColumn(name="Age", type="date", json_path=".metadata.creationTimestamp"),
        PrinterColumn(name="Message", type="string", json_path=".status.message", priority=1),
    ),
)

SCALE_TYPE_LABEL = "scale-type"
OWNER_LABELS = ("elasticjob.dlrover/name", "elasticjob-name")
MASTER_REPLICA_TYPE = "dlrover-master"
_ZERO_QUANTITY_PATTERN = re.compile(r"\+?[0.]*0[0.]*[A-Za-z]*")
_JOB_NAME_PATTERN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_HOST_PATTERN = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_PATTERN = re.compile(r"[0-9]{1,5}")
_RESOURCE_NAME_PATTERN = re.compile(
    r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
MAX_REASON_CHARS = 1000
MAX_PS_HOSTS_BYTES = 64 * 1024
"""Total size of psHosts, which is part of the environment of every replica."""
_POD_TYPES = "dlrover-master|worker|ps|chief|evaluator|master"


class ScalePlanFrontend(PlanFrontend):
    group = KIND_DEFINITION.group
    version = KIND_DEFINITION.version
    kind = KIND_DEFINITION.kind
    plural = KIND_DEFINITION.plural
    owner_field = "spec.ownerJob"
    no_relaunch_labels = MappingProxyType({"elasticjob.dlrover/relaunch-count": "5"})
    """The maximum relaunch count of DLRover masters."""
    claim_label = SCALE_TYPE_LABEL

    def crd(self) -> dict[str, Any]:
        return build_crd(KIND_DEFINITION)

    def parse(self, raw: Mapping[str, Any]) -> ScalePlan:
        return parse_plan(raw)

    def render_status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        return render_plan_status(status, previous)

    def owner_job_name(self, raw: Mapping[str, Any]) -> str:
        return owner_job_name(raw)


def parse_plan(raw: Mapping[str, Any]) -> ScalePlan:
    """Return the plan of a raw object; an invalid object sets `parse_error`, which names the field."""
    metadata = _mapping_or_empty(raw.get("metadata"))
    status, owners = _decode_status(raw_status(raw)), _elasticjob_owners(metadata)
    known: dict[str, Any] = {
        "key": JobKey(str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")),
        "uid": str(metadata.get("uid") or ""),
        "is_manual": _mapping_or_empty(metadata.get("labels")).get(SCALE_TYPE_LABEL) != "auto",
        "is_claimed": bool(owners),
        "job_uids": frozenset({status.job_uid, *(str(each.get("uid", "")) for each in owners)} - {""}),
        "created_at": parse_time(metadata.get("creationTimestamp")) or DEFAULT_CREATION_TIME,
        "generation": generation if isinstance(generation := metadata.get("generation"), int) else 0,
        "phase": PlanPhase(status.phase) if status.phase in list(PlanPhase) else None,
        "status_message": status.message,
        "finished_at": status.finish_time,
        "observed_generation": status.observed_generation,
    }
    try:
        spec = decode(ScalePlanSpec, raw.get("spec"), "spec")
        return ScalePlan(**known, **_plan_requests(spec, owner_job_name(raw)))
    except InvalidSpec as problem:
        return ScalePlan(**known, parse_error=_truncate_reason(str(problem)))


def render_plan_status(status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
    """Return the complete raw status of a plan; createTime and finishTime are set once.

    The observed generation does not change after the execution has begun.
    """
    before, at = _decode_status(previous), status.at.replace(microsecond=0)
    is_executed = before.phase in list(PlanPhase) and PlanPhase(before.phase).is_executed
    rendered = ScalePlanStatus(
        phase=str(status.phase),
        message=status.message,
        create_time=before.create_time or at,
        finish_time=(before.finish_time or at) if status.phase.is_final else None,
        observed_generation=before.observed_generation if is_executed else status.observed_generation,
        job_uid=status.job_uid or before.job_uid,
    )
    return cast("dict[str, Any]", to_json_data(rendered))


def owner_job_name(raw: Mapping[str, Any]) -> str:
    """Return the job that a raw plan names in its spec, labels or owner references; empty if there is no valid name."""
    metadata = _mapping_or_empty(raw.get("metadata"))
    labels = _mapping_or_empty(metadata.get("labels"))
    candidates = [
        _mapping_or_empty(raw.get("spec")).get("ownerJob"),
        *(labels.get(label) for label in OWNER_LABELS),
        *(owner.get("name") for owner in _elasticjob_owners(metadata)),
    ]
    job_name = next((name for name in candidates if isinstance(name, str) and name), "")
    return job_name if _JOB_NAME_PATTERN.fullmatch(job_name) else ""


def _plan_requests(spec: ScalePlanSpec, job_name: str) -> dict[str, Any]:
    groups = {
        name: PlanGroupRequest(
            size=each.replicas, resources=_parse_resources(each.resource, f"spec.replicaResourceSpecs.{name}")
        )
        for name, each in spec.replica_resource_specs.items()
        if name != MASTER_REPLICA_TYPE  # masters list themselves, but a master is never scaled
    }
    if sum(len(host.encode()) for host in spec.ps_hosts) > MAX_PS_HOSTS_BYTES:
        raise InvalidSpec("spec.psHosts", f"must have {MAX_PS_HOSTS_BYTES:,} bytes or less in total")
    return {
        "group_requests": groups,
        "create_pods": _pod_requests(spec.create_pods, "spec.createPods", job_name),
        "remove_pods": _pod_requests(spec.remove_pods, "spec.removePods", job_name),
        "migrate_pods": _pod_requests(spec.migrate_pods, "spec.migratePods", job_name),
        "server_addresses": tuple(spec.ps_hosts),
        "reason": _truncate_reason(" ".join(spec.reason.split())),
    }


def _pod_requests(pods: list[ScalePlanPod], path: str, job_name: str) -> tuple[PlanPodRequest, ...]:
    if len(pods) > MAX_REPLICAS_PER_JOB:
        raise InvalidSpec(path, f"must have {MAX_REPLICAS_PER_JOB:,} pods or fewer, got {len(pods):,}")
    requests = (_pod_request(pod, f"{path}[{index}]", job_name) for index, pod in enumerate(pods))
    return tuple(request for request in requests if request.group != MASTER_REPLICA_TYPE)


def _pod_request(pod: ScalePlanPod, path: str, job_name: str) -> PlanPodRequest:
    named = _parse_pod_name(pod, job_name)
    group = pod.type or (named["type"] if named else "")
    if group == MASTER_REPLICA_TYPE or pod.name.endswith(f"-{MASTER_REPLICA_TYPE}"):
        return PlanPodRequest(group=MASTER_REPLICA_TYPE)
    if not group:
        raise InvalidSpec(f"{path}.type", "is required: worker, ps, chief or evaluator")
    if job_name and pod.name and (named is None or not _may_be_of_job(named["job"], job_name)):
        problem = f"{abbreviate_json(pod.name)} is not a pod of job {job_name}, whose pods are named"
        raise InvalidSpec(f"{path}.name", f"{problem} {job_name}-edljob-{group}-<id>")
    id_in_name = int(named["id"]) if named else None
    service, port = _parse_service_address(pod.service or "", path)
    return PlanPodRequest(
        group=group,
        name=pod.name,
        id=id_in_name if pod.id is None else pod.id,
        rank=pod.rank_index,
        service=service,
        port=port,
        resources=_parse_resources(pod.resource, path),
    )


def _parse_pod_name(pod: ScalePlanPod, job_name: str) -> re.Match[str] | None:
    """Return the parts of the name of a pod, if it has any; users also write <job>-<type>-<id>."""
    types = re.escape(pod.type) if pod.type else _POD_TYPES
    job = f"{re.escape(job_name)}|" if job_name else ""  # first, since the name of a job may end with -edljob
    return re.fullmatch(rf"(?P<job>{job}.+?)(-edljob)?-(?P<type>{types})-(?P<id>[0-9]{{1,9}})", pod.name)


def _may_be_of_job(job_in_name: str, job_name: str) -> bool:
    """Return whether a pod name is one of this job; DLRover's samples write the job with characters of no job name."""
    return job_in_name == job_name or not _JOB_NAME_PATTERN.fullmatch(job_in_name)


def _parse_service_address(address: str, path: str) -> tuple[str, int | None]:
    """Return the service name and the port of `host:port`; both are optional."""
    host, _, port = address.partition(":")
    name, number = host.partition(".")[0], int(port) if _PORT_PATTERN.fullmatch(port) else 0
    if (name and not _HOST_PATTERN.fullmatch(name)) or (port and not 0 < number < 2**16):
        raise InvalidSpec(f"{path}.service", f"must be host:port, got {abbreviate_json(address)}")
    return name, number or None


def _parse_resources(resources: Mapping[str, Any], path: str) -> dict[str, str]:
    """Return the requested quantities by resource name, without zero quantities."""
    quantities: dict[str, str] = {}
    for name, value in resources.items():
        if not _RESOURCE_NAME_PATTERN.fullmatch(name):
            raise InvalidSpec(
                f"{path}.resource", f"{abbreviate_json(name)} is not a resource name such as cpu or nvidia.com/gpu"
            )
        quantity = normalize_quantity(value)
        if quantity is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {abbreviate_json(value)}"
            raise InvalidSpec(f"{path}.resource.{name}", problem)
        if quantity and not _ZERO_QUANTITY_PATTERN.fullmatch(quantity):
            quantities[name] = quantity
    return quantities


def _truncate_reason(text: str) -> str:
    return text if len(text) <= MAX_REASON_CHARS else f"{text[: MAX_REASON_CHARS - 1]}…"


def _elasticjob_owners(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the owner references to ElasticJobs; masters write the kind in lower case."""
    references = metadata.get("ownerReferences")
    owners = [_mapping_or_empty(each) for each in references] if isinstance(references, list) else []
    return [each for each in owners if str(each.get("kind", "")).lower() == "elasticjob"]


def _decode_status(status: Mapping[str, Any]) -> ScalePlanStatus:
    present = {key: value for key, value in status.items() if value is not None}
    try:
        return msgspec.convert(present, ScalePlanStatus)
    except msgspec.ValidationError:
        return ScalePlanStatus()


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
