"""ScalePlans: read as they are written by masters of several versions and by people, and answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind, PrinterColumn, build_crd
from pliant.frontends.frontend import PlanFrontend
from pliant.frontends.scaleplan.types import MAX_REPLICAS, ScalePlanGroup, ScalePlanPod, ScalePlanSpec, ScalePlanStatus
from pliant.frontends.spec.decoding import decode, quote_json
from pliant.frontends.spec.quantities import normalize_quantity
from pliant.frontends.status.engine_state import raw_status, to_json_data
from pliant.model.job import JobKey
from pliant.model.scale_plans import GroupRequest, PlanPhase, PlanStatus, PodRequest, ScalePlan

KIND = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ScalePlan",
    plural="scaleplans",
    description="Which members an ElasticJob is to have, written by its master or by hand.",
    spec_type=ScalePlanSpec,
    status_type=ScalePlanStatus,
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
MASTER_TYPE = "dlrover-master"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_QUANTITY_PATTERN = re.compile(r"\+?[0.]*0[0.]*[A-Za-z]*")
_JOB_NAME_PATTERN = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_HOST_PATTERN = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT_PATTERN = re.compile(r"[0-9]{1,5}")
_RESOURCE_NAME_PATTERN = re.compile(
    r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
)
MAX_REASON_CHARS = 1000
"""Characters: it is repeated wherever the plan is told of."""
MAX_PS_HOSTS_BYTES = 64 * 1024
"""Bytes of all parameter servers together: every member is told of them."""
_POD_NAME_PATTERN = re.compile(
    r"(?P<job>.+?)(?P<ours>-edljob)?-(?P<type>dlrover-master|worker|ps|chief|evaluator|master)-(?P<id>[0-9]{1,9})"
)


class ScalePlanFrontend(PlanFrontend):
    """The kind of objects that ask an ElasticJob for other members."""

    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    owner_field = "spec.ownerJob"
    no_relaunch_labels = MappingProxyType({"elasticjob.dlrover/relaunch-count": "5"})
    """As many as any master allows."""
    claim_label = SCALE_TYPE_LABEL

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return build_crd(KIND)

    def parse(self, raw: Mapping[str, Any]) -> ScalePlan:
        """The plan in a raw object; one that cannot be read says why."""
        return parse_plan(raw)

    def render_status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        """The whole new raw status."""
        return render_plan_status(status, previous)

    def owner_job_name(self, raw: Mapping[str, Any]) -> str:
        """The name of the job that it is for; empty if it names none."""
        return owner_job_name(raw)


def parse_plan(raw: Mapping[str, Any]) -> ScalePlan:
    """The plan in a raw object; one that cannot be read has a `problem` that names the field."""
    metadata = _mapping_or_empty(raw.get("metadata"))
    told = _decode_status(raw_status(raw))
    known: dict[str, Any] = {
        "key": JobKey(str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")),
        "uid": str(metadata.get("uid") or ""),
        "is_manual": _mapping_or_empty(metadata.get("labels")).get(SCALE_TYPE_LABEL) != "auto",
        "is_claimed": any(True for _ in _elasticjob_owners(metadata)),
        "created_at": _parse_time(metadata.get("creationTimestamp")),
        "phase": PlanPhase(told.phase) if told.phase in list(PlanPhase) else None,
        "status_message": told.message,
        "finished_at": told.finish_time,
    }
    try:
        spec = decode(ScalePlanSpec, raw.get("spec"), "spec")
        return ScalePlan(**known, **_plan_requests(spec))
    except InvalidSpec as problem:
        return ScalePlan(**known, parse_error=_truncate_reason(str(problem)))


def render_plan_status(status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
    """The whole new raw status: when it was first looked at stays."""
    told, at = _decode_status(previous), status.at.replace(microsecond=0)
    words = ScalePlanStatus(
        phase=str(status.phase),
        message=status.message,
        create_time=told.create_time or at,
        finish_time=(told.finish_time or at) if status.phase.is_final else None,
    )
    return cast("dict[str, Any]", to_json_data(words))


def owner_job_name(raw: Mapping[str, Any]) -> str:
    """The name of the job that a raw plan is for, by whatever it says; empty if that is no name."""
    metadata = _mapping_or_empty(raw.get("metadata"))
    labels = _mapping_or_empty(metadata.get("labels"))
    named = [
        _mapping_or_empty(raw.get("spec")).get("ownerJob"),
        *(labels.get(label) for label in OWNER_LABELS),
        *(owner.get("name") for owner in _elasticjob_owners(metadata)),
    ]
    said = next((name for name in named if isinstance(name, str) and name), "")
    return said if _JOB_NAME_PATTERN.fullmatch(said) else ""


def _plan_requests(spec: ScalePlanSpec) -> dict[str, Any]:
    groups = {
        name: _group_request(each, f"spec.replicaResourceSpecs.{name}")
        for name, each in spec.replica_resource_specs.items()
        if name != MASTER_TYPE  # masters list themselves; nobody scales a master
    }
    if sum(len(host.encode()) for host in spec.ps_hosts) > MAX_PS_HOSTS_BYTES:
        raise InvalidSpec("spec.psHosts", f"must have {MAX_PS_HOSTS_BYTES:,} bytes or less, all together")
    return {
        "group_requests": groups,
        "create_pods": _pod_requests(spec.create_pods, "spec.createPods"),
        "remove_pods": _pod_requests(spec.remove_pods, "spec.removePods"),
        "migrate_pods": _pod_requests(spec.migrate_pods, "spec.migratePods"),
        "ps_hosts": tuple(spec.ps_hosts),
        "reason": _truncate_reason(" ".join(spec.reason.split())),
    }


def _group_request(replica_resource: ScalePlanGroup, path: str) -> GroupRequest:
    return GroupRequest(size=replica_resource.replicas, resources=_parse_resources(replica_resource.resource, path))


def _pod_requests(pods: list[ScalePlanPod], path: str) -> tuple[PodRequest, ...]:
    if len(pods) > MAX_REPLICAS:
        raise InvalidSpec(path, f"must have {MAX_REPLICAS:,} pods or fewer, got {len(pods):,}")
    found = (_pod_request(pod, f"{path}[{index}]") for index, pod in enumerate(pods))
    return tuple(pod for pod in found if pod.group != MASTER_TYPE)


def _pod_request(pod: ScalePlanPod, path: str) -> PodRequest:
    named = _POD_NAME_PATTERN.fullmatch(pod.name)
    group = pod.type or (named["type"] if named else "")
    if not group and pod.name.endswith(f"-{MASTER_TYPE}"):
        return PodRequest(group=MASTER_TYPE)
    if not group:
        raise InvalidSpec(f"{path}.type", "is required: worker, ps, chief or evaluator")
    # People also write <job>-<type>-<id>, which is no pod's name but says whom they mean.
    by_name = int(named["id"]) if named and not named["ours"] else None
    service, port = _parse_service_address(pod.service or "", path)
    return PodRequest(
        group=group,
        name=pod.name,
        id=by_name if pod.id is None else pod.id,
        rank=pod.rank_index,
        service=service,
        port=port,
        resources=_parse_resources(pod.resource, path),
    )


def _parse_service_address(address: str, path: str) -> tuple[str, int | None]:
    """The name of a service and its port, out of host:port; either may be missing."""
    host, _, port = address.partition(":")
    name, number = host.partition(".")[0], int(port) if _PORT_PATTERN.fullmatch(port) else 0
    if (name and not _HOST_PATTERN.fullmatch(name)) or (port and not 0 < number < 2**16):
        raise InvalidSpec(f"{path}.service", f"must be host:port, got {quote_json(address)}")
    return name, number or None


def _parse_resources(resources: Mapping[str, Any], path: str) -> dict[str, str]:
    """What is asked for, as text; nothing of something is the same as not asking for it."""
    amounts: dict[str, str] = {}
    for name, amount in resources.items():
        if not _RESOURCE_NAME_PATTERN.fullmatch(name):
            raise InvalidSpec(f"{path}.resource", f"{quote_json(name)} is no name such as cpu or nvidia.com/gpu")
        text = normalize_quantity(amount)
        if text is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {quote_json(amount)}"
            raise InvalidSpec(f"{path}.resource.{name}", problem)
        if text and not _ZERO_QUANTITY_PATTERN.fullmatch(text):
            amounts[name] = text
    return amounts


def _truncate_reason(text: str) -> str:
    return text if len(text) <= MAX_REASON_CHARS else f"{text[: MAX_REASON_CHARS - 1]}…"


def _elasticjob_owners(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The jobs that own it; masters write their kind in lower case."""
    references = metadata.get("ownerReferences")
    found = [_mapping_or_empty(each) for each in references] if isinstance(references, list) else []
    return [each for each in found if str(each.get("kind", "")).lower() == "elasticjob"]


def _decode_status(status: Mapping[str, Any]) -> ScalePlanStatus:
    given = {key: value for key, value in status.items() if value is not None}
    try:
        return msgspec.convert(given, ScalePlanStatus)
    except msgspec.ValidationError:
        return ScalePlanStatus()  # not words of ours


def _parse_time(value: Any) -> datetime:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return _EPOCH


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
