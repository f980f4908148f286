"""ScalePlans: read as they are written by masters of several versions and by people, and answered."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, cast

import msgspec

from pliant.errors import InvalidSpec
from pliant.frontends.base import PlanKind
from pliant.frontends.crd import Column, CustomKind, custom_resource_definition
from pliant.frontends.memory import plain, status_in
from pliant.frontends.quantities import amount_text
from pliant.frontends.reading import quoted, read
from pliant.frontends.scaleplan.types import MOST_MEMBERS, PodMeta, ReplicaResource, ScalePlanSpec, ScalePlanStatus
from pliant.model.job import JobKey
from pliant.model.plans import GroupRequest, Plan, PlanPhase, PlanStatus, PodRequest

KIND = CustomKind(
    group="elastic.iml.github.io",
    version="v1alpha1",
    kind="ScalePlan",
    plural="scaleplans",
    description="Which members an ElasticJob is to have, written by its master or by hand.",
    spec=ScalePlanSpec,
    status=ScalePlanStatus,
    columns=(
        Column(name="Phase", type="string", path=".status.phase"),
        Column(name="Job", type="string", path=".spec.ownerJob"),
        Column(name="Reason", type="string", path=".spec.reason"),
        Column(name="Age", type="date", path=".metadata.creationTimestamp"),
        Column(name="Message", type="string", path=".status.message", priority=1),
    ),
)

SCALE_TYPE = "scale-type"
OWNER_LABELS = ("elasticjob.dlrover/name", "elasticjob-name")
MASTER = "dlrover-master"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING = re.compile(r"\+?[0.]*0[0.]*[A-Za-z]*")
_JOB = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_HOST = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PORT = re.compile(r"[0-9]{1,5}")
_RESOURCE = re.compile(r"([a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
LONGEST_REASON = 1000
"""Characters: it is repeated wherever the plan is told of."""
MOST_HOSTS = 64 * 1024
"""Bytes of all parameter servers together: every member is told of them."""
_POD = re.compile(
    r"(?P<job>.+?)(?P<ours>-edljob)?-(?P<type>dlrover-master|worker|ps|chief|evaluator|master)-(?P<id>[0-9]{1,9})"
)


class ScalePlan(PlanKind):
    """The kind of objects that ask an ElasticJob for other members."""

    group = KIND.group
    version = KIND.version
    kind = KIND.kind
    plural = KIND.plural
    owner_field = "spec.ownerJob"
    farewell = MappingProxyType({"elasticjob.dlrover/relaunch-count": "5"})
    """As many as any master allows."""
    bait = SCALE_TYPE

    def crd(self) -> dict[str, Any]:
        """The CustomResourceDefinition that teaches a cluster this kind."""
        return custom_resource_definition(KIND)

    def parse(self, raw: Mapping[str, Any]) -> Plan:
        """The plan in a raw object; one that cannot be read says why."""
        return parse_plan(raw)

    def status(self, status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
        """The whole new raw status."""
        return plan_status(status, previous)

    def owner(self, raw: Mapping[str, Any]) -> str:
        """The name of the job that it is for; empty if it names none."""
        return owner_job(raw)


def parse_plan(raw: Mapping[str, Any]) -> Plan:
    """The plan in a raw object; one that cannot be read has a `problem` that names the field."""
    metadata = _mapping(raw.get("metadata"))
    told = _told(status_in(raw))
    known: dict[str, Any] = {
        "key": JobKey(str(metadata.get("namespace") or "default"), str(metadata.get("name") or "")),
        "uid": str(metadata.get("uid") or ""),
        "is_manual": _mapping(metadata.get("labels")).get(SCALE_TYPE) != "auto",
        "is_taken": any(True for _ in _owners(metadata)),
        "created_at": _time(metadata.get("creationTimestamp")),
        "phase": PlanPhase(told.phase) if told.phase in list(PlanPhase) else None,
        "said": told.message,
        "finished_at": told.finish_time,
    }
    try:
        spec = read(ScalePlanSpec, raw.get("spec"), "spec")
        return Plan(**known, **_asked(spec))
    except InvalidSpec as problem:
        return Plan(**known, problem=_shortened(str(problem)))


def plan_status(status: PlanStatus, previous: Mapping[str, Any]) -> dict[str, Any]:
    """The whole new raw status: when it was first looked at stays."""
    told, at = _told(previous), status.at.replace(microsecond=0)
    words = ScalePlanStatus(
        phase=str(status.phase),
        message=status.message,
        create_time=told.create_time or at,
        finish_time=(told.finish_time or at) if status.phase.is_final else None,
    )
    return cast("dict[str, Any]", plain(words))


def owner_job(raw: Mapping[str, Any]) -> str:
    """The name of the job that a raw plan is for, by whatever it says; empty if that is no name."""
    metadata = _mapping(raw.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    named = [
        _mapping(raw.get("spec")).get("ownerJob"),
        *(labels.get(label) for label in OWNER_LABELS),
        *(owner.get("name") for owner in _owners(metadata)),
    ]
    said = next((name for name in named if isinstance(name, str) and name), "")
    return said if _JOB.fullmatch(said) else ""


def _asked(spec: ScalePlanSpec) -> dict[str, Any]:
    groups = {
        name: _group(each, f"spec.replicaResourceSpecs.{name}")
        for name, each in spec.replica_resource_specs.items()
        if name != MASTER  # masters list themselves; nobody scales a master
    }
    if sum(len(host.encode()) for host in spec.ps_hosts) > MOST_HOSTS:
        raise InvalidSpec("spec.psHosts", f"must have {MOST_HOSTS:,} bytes or less, all together")
    return {
        "groups": groups,
        "create": _pods(spec.create_pods, "spec.createPods"),
        "remove": _pods(spec.remove_pods, "spec.removePods"),
        "migrate": _pods(spec.migrate_pods, "spec.migratePods"),
        "hosts": tuple(spec.ps_hosts),
        "reason": _shortened(" ".join(spec.reason.split())),
    }


def _group(asked: ReplicaResource, path: str) -> GroupRequest:
    return GroupRequest(size=asked.replicas, resource=_amounts(asked.resource, path))


def _pods(pods: list[PodMeta], path: str) -> tuple[PodRequest, ...]:
    if len(pods) > MOST_MEMBERS:
        raise InvalidSpec(path, f"must have {MOST_MEMBERS:,} pods or fewer, got {len(pods):,}")
    found = (_pod(pod, f"{path}[{index}]") for index, pod in enumerate(pods))
    return tuple(pod for pod in found if pod.group != MASTER)


def _pod(pod: PodMeta, path: str) -> PodRequest:
    named = _POD.fullmatch(pod.name)
    group = pod.type or (named["type"] if named else "")
    if not group and pod.name.endswith(f"-{MASTER}"):
        return PodRequest(group=MASTER)
    if not group:
        raise InvalidSpec(f"{path}.type", "is required: worker, ps, chief or evaluator")
    # People also write <job>-<type>-<id>, which is no pod's name but says whom they mean.
    by_name = int(named["id"]) if named and not named["ours"] else None
    service, port = _address(pod.service or "", path)
    return PodRequest(
        group=group,
        name=pod.name,
        id=by_name if pod.id is None else pod.id,
        rank=pod.rank_index,
        service=service,
        port=port,
        resource=_amounts(pod.resource, path),
    )


def _address(text: str, path: str) -> tuple[str, int | None]:
    """The name of a service and its port, out of host:port; either may be missing."""
    host, _, port = text.partition(":")
    name, number = host.partition(".")[0], int(port) if _PORT.fullmatch(port) else 0
    if (name and not _HOST.fullmatch(name)) or (port and not 0 < number < 2**16):
        raise InvalidSpec(f"{path}.service", f"must be host:port, got {quoted(text)}")
    return name, number or None


def _amounts(resource: Mapping[str, Any], path: str) -> dict[str, str]:
    """What is asked for, as text; nothing of something is the same as not asking for it."""
    amounts: dict[str, str] = {}
    for name, amount in resource.items():
        if not _RESOURCE.fullmatch(name):
            raise InvalidSpec(f"{path}.resource", f"{quoted(name)} is no name such as cpu or nvidia.com/gpu")
        text = amount_text(amount)
        if text is None:
            problem = f"must be a quantity such as 500m or 4Gi, got {quoted(amount)}"
            raise InvalidSpec(f"{path}.resource.{name}", problem)
        if text and not _NOTHING.fullmatch(text):
            amounts[name] = text
    return amounts


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def _owners(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The jobs that own it; masters write their kind in lower case."""
    references = metadata.get("ownerReferences")
    found = [_mapping(each) for each in references] if isinstance(references, list) else []
    return [each for each in found if str(each.get("kind", "")).lower() == "elasticjob"]


def _told(status: Mapping[str, Any]) -> ScalePlanStatus:
    given = {key: value for key, value in status.items() if value is not None}
    try:
        return msgspec.convert(given, ScalePlanStatus)
    except msgspec.ValidationError:
        return ScalePlanStatus()  # not words of ours


def _time(value: Any) -> datetime:
    try:
        return msgspec.convert(value, datetime)
    except msgspec.ValidationError:
        return _EPOCH


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
