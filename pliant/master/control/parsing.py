"""Parses the ElasticJob of the master, and its members from their pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from pliant.errors import InvalidSpec
from pliant.frontends.elasticjob.types import (
    MASTER_REPLICA_TYPE,
    WORKER,
    ElasticJobSpec,
    ElasticReplicaSpec,
    distribution_strategy,
)
from pliant.frontends.spec.decoding import decode
from pliant.frontends.status.engine_state import load_state, raw_status
from pliant.kube.objects import ContainerStatus, Pod
from pliant.kube.pod_disruptions import find_disruption
from pliant.master.model import (
    Heartbeat,
    JobMember,
    MasterJobSpec,
    MasterRoleSpec,
    MemberKey,
    MemberStatus,
    PodResources,
)
from pliant.model.state import EngineState, SizeRequester
from pliant.schemas.quantity import parse_quantity

DEFAULT_RESTARTS, MAX_RESTARTS = 3, 5
USER_SIZE_REQUESTERS: Final = (SizeRequester.MANUAL_PLAN, SizeRequester.SPEC, SizeRequester.SCALE)
OPTIMIZE_MODES_WITH_TUNING: Final = ("", "single-job", "cluster")
"""Values of `optimizeMode` in which the master may choose sizes; `cluster` without a Brain means `single-job`."""
LABEL_PREFIX: Final = "elasticjob.dlrover/"
JOB_LABEL, TYPE_LABEL, ID_LABEL, RANK_LABEL, RELAUNCHES_LABEL = (
    LABEL_PREFIX + name for name in ("name", "replica-type", "replica-index", "rank-index", "relaunch-count")
)
MASTER_TYPE: Final = "dlrover-master"
MEMBER_PORT_BY_TYPE: Final = {"ps": 2222}
DEFAULT_MEMBER_PORT: Final = 3333
_STATUS_BY_PHASE: Final = {
    "Pending": MemberStatus.PENDING,
    "Running": MemberStatus.RUNNING,
    "Succeeded": MemberStatus.SUCCEEDED,
    "Failed": MemberStatus.FAILED,
}


def parse_elastic_job(raw: Mapping[str, Any]) -> MasterJobSpec:
    """Parse an ElasticJob; raise `InvalidSpec` with the field that is invalid."""
    metadata = raw["metadata"]
    spec = decode(ElasticJobSpec, raw.get("spec"), "spec")
    state = _read_engine_state(raw)
    roles = {
        name: _parse_role(name, replica, spec, state)
        for name, replica in spec.replica_specs.items()
        if name != MASTER_REPLICA_TYPE
    }
    return MasterJobSpec(
        namespace=metadata.get("namespace") or "default",
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        strategy=distribution_strategy(spec),
        resource_limits=parse_resources(spec.resource_limits, "spec.resourceLimits"),
        roles=roles,
        is_suspended=spec.suspend or spec.suspended,
        allows_tuning=spec.optimize_mode in OPTIMIZE_MODES_WITH_TUNING,
    )


def parse_resources(quantities: Mapping[str, Any], path: str) -> PodResources:
    """Parse CPU and memory to numbers; other resources stay strings."""
    values = {name: value for name, value in quantities.items() if value not in (None, "")}
    try:
        cpu = float(parse_quantity(values["cpu"])) if "cpu" in values else None
        memory = int(parse_quantity(values["memory"])) if "memory" in values else None
    except ValueError as error:
        raise InvalidSpec(path, str(error)) from None
    extended_resources = {name: str(value) for name, value in values.items() if name not in ("cpu", "memory")}
    return PodResources(cpu=cpu or None, memory=memory or None, extended_resources=extended_resources)


def _parse_role(
    name: str, replica_spec: ElasticReplicaSpec, spec: ElasticJobSpec, state: EngineState | None
) -> MasterRoleSpec:
    worker_template = spec.replica_specs.get(WORKER, ElasticReplicaSpec()).template
    template = replica_spec.template or worker_template or {}
    restarts = DEFAULT_RESTARTS if replica_spec.restart_count is None else replica_spec.restart_count
    return MasterRoleSpec(
        type=name,
        replicas=replica_spec.replicas or None,
        min_size=replica_spec.min_replicas or 0,
        max_size=replica_spec.max_replicas,
        resources=_main_container_resources(template, f"spec.replicaSpecs.{name}.template"),
        may_scale=replica_spec.auto_scale is not False,
        restart_limit=min(restarts, MAX_RESTARTS),
        restarts_always=(template.get("spec") or {}).get("restartPolicy") == "Always",
        user_requested_size=_user_requested_size(name, state),
        operator_applied_size=state.group(name).applied_size if state is not None else None,
    )


def _main_container_resources(template: Mapping[str, Any], path: str) -> PodResources:
    containers = (template.get("spec") or {}).get("containers") or [{}]
    main = next((each for each in containers if each.get("name") == "main"), containers[0])
    resources = main.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return parse_resources(amounts, f"{path}.spec.containers")


def _user_requested_size(name: str, state: EngineState | None) -> int | None:
    if state is None:
        return None
    group = state.group(name)
    return group.size_requests[group.latest_requester].size if group.latest_requester in USER_SIZE_REQUESTERS else None


def _read_engine_state(raw: Mapping[str, Any]) -> EngineState | None:
    try:
        return load_state(raw_status(raw))
    except InvalidSpec:
        return None  # the operator reports it


def members_from_pods(
    pods: Iterable[Pod], heartbeats: Mapping[MemberKey, Heartbeat], now: datetime
) -> tuple[JobMember, ...]:
    """Build the sorted members of these pods; ignore pods without the labels of a member."""
    members = (_member_from_pod(pod, heartbeats, now) for pod in pods)
    return tuple(sorted((member for member in members if member is not None), key=lambda member: member.key))


def member_key_and_rank(pod: Pod) -> tuple[MemberKey, int] | None:
    labels = pod.metadata.labels
    id_, rank = labels.get(ID_LABEL, ""), labels.get(RANK_LABEL, labels.get(ID_LABEL, ""))
    if labels.get(TYPE_LABEL, MASTER_TYPE) == MASTER_TYPE or not id_.isdecimal() or not rank.isdecimal():
        return None
    return MemberKey(labels[TYPE_LABEL], int(id_)), int(rank)


def _member_from_pod(pod: Pod, heartbeats: Mapping[MemberKey, Heartbeat], now: datetime) -> JobMember | None:
    key_and_rank = member_key_and_rank(pod)
    if key_and_rank is None:
        return None
    key, rank = key_and_rank
    main = _main_container_status(pod)
    terminated = main.state.terminated if main else None
    started_at = main.state.running.started_at if main and main.state.running else None
    has_finished = pod.status.phase in ("Succeeded", "Failed")
    relaunches = pod.metadata.labels.get(RELAUNCHES_LABEL, "0")
    port = MEMBER_PORT_BY_TYPE.get(key.type, DEFAULT_MEMBER_PORT)
    requests, limits = _pod_resources(pod)
    return JobMember(
        key=key,
        rank=rank,
        pod_name=pod.metadata.name,
        status=_member_status(pod),
        resources=requests,
        memory_limit=limits.memory,
        relaunches=int(relaunches) if relaunches.isdecimal() else 0,
        created_at=pod.metadata.creation_timestamp or now,
        started_at=started_at or (terminated.started_at if terminated else None) or pod.status.start_time,
        ended_at=(terminated.finished_at if terminated else None) or (now if has_finished else None),
        exit_code=terminated.exit_code if terminated else None,
        reason=_pod_reason(pod, main),
        node_name=pod.spec.node_name,
        address=f"{pod.status.pod_ip}:{port}" if pod.status.pod_ip else "",
        heartbeat=heartbeats.get(key),
    )


def _member_status(pod: Pod) -> MemberStatus:
    """Derive the status from the phase; a pod that is deleted while it runs is lost, as its member was not removed.

    So is a pod that the cluster ended.
    """
    if pod.status.phase == "Failed" and find_disruption(pod) is not None:
        return MemberStatus.LOST
    status = _STATUS_BY_PHASE.get(pod.status.phase, MemberStatus.LOST)
    if pod.metadata.deletion_timestamp is not None and status in (MemberStatus.PENDING, MemberStatus.RUNNING):
        return MemberStatus.LOST
    return status


def _main_container_status(pod: Pod) -> ContainerStatus | None:
    """Return the status of the first container, which the operator makes the main one."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    statuses = pod.status.container_statuses
    return next((status for status in statuses if status.name == name), statuses[0] if statuses else None)


def _pod_resources(pod: Pod) -> tuple[PodResources, PodResources]:
    """Return the requests, which default to the limits, and the limits of the main container."""
    if not pod.spec.containers:
        return PodResources(), PodResources()
    found = pod.spec.containers[0].resources
    try:
        requests = parse_resources({**found.limits, **found.requests}, pod.metadata.name)
        return requests, parse_resources(found.limits, pod.metadata.name)
    except InvalidSpec:
        return PodResources(), PodResources()


def _pod_reason(pod: Pod, main: ContainerStatus | None) -> str:
    if main is not None and main.state.terminated is not None:
        return main.state.terminated.reason or pod.status.reason
    if main is not None and main.state.waiting is not None and pod.spec.node_name:
        return main.state.waiting.reason
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return pod.status.reason or next((each.message for each in scheduled), "")
