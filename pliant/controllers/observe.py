"""Cached Kubernetes objects to the slice of the cluster that decisions read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pliant.controllers.nodes import NodeWatch
from pliant.kube.objects import ContainerStatus, ContainerTerminated, Pod, Service
from pliant.model import labels
from pliant.model.job import Job, Naming
from pliant.model.observed import Exit, NodeFault, ObservedPod, ObservedService, PodPhase, Seen, Stuck, Wish
from pliant.model.plans import Plan
from pliant.model.rules import Rules

LONGEST_MESSAGE = 300
MOST_WORDS = 1024
"""Characters that are kept of what a container said last."""
_ORDINARY_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
_CREATION_FAILURES = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
    }
)
_COUNTED = re.compile(r"[0-9]{1,9}")
_OVER = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_TAKEN_AWAY = {
    "Evicted": "was evicted",
    "Preempting": "was preempted on its node",
    "NodeShutdown": "was ended by the shutdown of its node",
    "Terminated": "was ended by the shutdown of its node",
    "Shutdown": "was ended by the shutdown of its node",
}
"""Reasons of failed pods whose programs are not to blame."""


@dataclass(frozen=True, slots=True)
class Members:
    """What the caches hold of one job."""

    pods: Iterable[Pod] = ()
    services: Iterable[Service] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    wishes: Mapping[str, Wish] = field(default_factory=dict)
    foreign: Iterable[Pod] = ()
    """Pods that the job's master made."""
    plans: tuple[Plan, ...] = ()


def observe(job: Job, members: Members, nodes: NodeWatch | None = None, rules: Rules | None = None) -> Seen:
    """What is seen of one job: its pods and services, and what the server would not let us create."""
    counted = {labels.member_group(group.name): group.counted for group in job.groups}
    made = ((pod, _Place.of(pod, job.naming)) for pod in members.pods)
    foreign = ((pod, _Place.of_foreign(pod, job.naming)) for pod in members.foreign)
    return Seen(
        pods=tuple(
            _pod(pod, place, counted.get(place.group) or frozenset(), nodes.fault_under(pod) if nodes else None)
            for pod, place in (*made, *foreign)
        ),
        services={service.metadata.name: _service(service) for service in members.services},
        refusals=members.refusals,
        wishes=members.wishes,
        rules=rules or Rules(),
        plans=members.plans,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What the labels of a pod say of its place."""

    group: str
    index: int
    rank: int
    is_foreign: bool = False

    @classmethod
    def of(cls, pod: Pod, naming: Naming) -> _Place:
        its = pod.metadata.labels
        return cls(
            group=its.get(labels.REPLICA, ""),
            index=_number(its.get(labels.INDEX)),
            rank=_number(its.get(naming.rank_label)),
        )

    @classmethod
    def of_foreign(cls, pod: Pod, naming: Naming) -> _Place:
        its = pod.metadata.labels
        return cls(
            group=its.get(naming.type_label, ""),
            index=_number(its.get(naming.id_label)),
            rank=_number(its.get(naming.rank_label)),
            is_foreign=True,
        )


def _pod(pod: Pod, place: _Place, chosen: frozenset[str], fault: NodeFault | None) -> ObservedPod:
    meta = pod.metadata
    statuses = [status for status in pod.status.container_statuses if not chosen or status.name in chosen]
    phase = _phase(pod, statuses, len(chosen) or len(pod.spec.containers))
    end = _first_bad_end(pod, statuses)
    return ObservedPod(
        name=meta.name,
        uid=meta.uid,
        group=place.group,
        index=place.index,
        rank=place.rank,
        is_foreign=place.is_foreign,
        attempt=max(_number(meta.labels.get(labels.ATTEMPT)), 0),
        phase=phase,
        is_leaving=meta.deletion_timestamp is not None,
        due=meta.deletion_timestamp,
        finalizers=meta.finalizers,
        node=pod.spec.node_name,
        exit=_exit(pod, end) if phase is PodPhase.FAILED else None,
        trouble=_trouble(pod),
        started_at=_started_at(statuses),
        finished_at=end[1].finished_at if end else _finished_at(statuses) if phase in _OVER else None,
        fault=fault,
        stuck=_stuck(pod) if phase is PodPhase.SCHEDULED else None,
        disruption=_disruption(pod) if phase is PodPhase.FAILED else "",
    )


def _service(service: Service) -> ObservedService:
    meta = service.metadata
    return ObservedService(name=meta.name, uid=meta.uid, is_leaving=meta.deletion_timestamp is not None)


def _phase(pod: Pod, statuses: Sequence[ContainerStatus], wanted: int) -> PodPhase:
    """Judge by the containers that count as soon as their end is final, without waiting for side-cars."""
    if pod.spec.restart_policy == "Never" and statuses:
        ends = [status.state.terminated for status in statuses]
        if any(end is not None and end.exit_code != 0 for end in ends):
            return PodPhase.FAILED
        if len(ends) >= wanted and all(ends):
            return PodPhase.SUCCEEDED
    if pod.status.phase in ("Running", "Succeeded", "Failed"):
        return PodPhase(pod.status.phase)
    return PodPhase.SCHEDULED if pod.spec.node_name else PodPhase.PENDING


def _first_bad_end(pod: Pod, statuses: Sequence[ContainerStatus]) -> tuple[str, ContainerTerminated] | None:
    """The earliest bad end among the containers that count; init containers always count."""
    ends = [
        (status.name, status.state.terminated)
        for status in (*pod.status.init_container_statuses, *statuses)
        if status.state.terminated is not None and status.state.terminated.exit_code != 0
    ]
    return min(ends, key=lambda named: str(named[1].finished_at or "~"), default=None)


def _started_at(statuses: Sequence[ContainerStatus]) -> datetime | None:
    """When the first of the containers began its present run."""
    states = [status.state.running or status.state.terminated for status in statuses]
    return min((state.started_at for state in states if state is not None and state.started_at), default=None)


def _finished_at(statuses: Sequence[ContainerStatus]) -> datetime | None:
    """When the last of the containers ended."""
    ends = [status.state.terminated for status in statuses]
    return max((end.finished_at for end in ends if end is not None and end.finished_at), default=None)


def _exit(pod: Pod, end: tuple[str, ContainerTerminated] | None) -> Exit:
    if end is None:
        return Exit(reason=pod.status.reason, message=_short(pod.status.message))
    container, terminated = end
    return Exit(
        code=terminated.exit_code,
        container=container,
        reason=terminated.reason,
        message=_short(_last_line(terminated.message)),
        last_words=_tail(terminated.message),
    )


def _trouble(pod: Pod) -> str:
    """Why a pod does not come up, in the cluster's own words; empty while all is in order."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _ORDINARY_WAITS:
            return _short(f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return _short(f"{condition.reason}: {condition.message}")
    return ""


def _stuck(pod: Pod) -> Stuck | None:
    """The first container that the node cannot create; nothing says since when, so since the node took the pod."""
    since = pod.status.start_time or pod.metadata.creation_timestamp
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if since is not None and waiting is not None and waiting.reason in _CREATION_FAILURES:
            return Stuck(container=status.name, reason=waiting.reason, since=since)
    return None


def _disruption(pod: Pod) -> str:
    """How the cluster ended a pod for reasons of its own; empty if it did not."""
    said = _TAKEN_AWAY.get(pod.status.reason, "")
    if not said and any(
        each.type == "DisruptionTarget" and each.status == "True" for each in pod.status.conditions
    ):
        said = "was taken away by the cluster"
    return _short(f"{said}: {pod.status.message}" if said and pod.status.message else said)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_MESSAGE else f"{line[: LONGEST_MESSAGE - 1]}…"


def _last_line(text: str) -> str:
    """The last line that says something: of a stack trace, the error itself."""
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))]
    return lines[-1] if lines else text


def _tail(text: str) -> str:
    """The last lines, whole ones as far as possible; what cannot be shown is left out."""
    kept = "".join(letter for letter in text.strip() if letter.isprintable() or letter in "\n\t")
    if len(kept) <= MOST_WORDS:
        return kept
    cut = kept[-MOST_WORDS:]
    return cut.partition("\n")[2] or cut


def _number(text: str | None) -> int:
    """The number in a label; -1 if it is none, or one that nobody counts up to: anybody may write labels."""
    return int(text) if text and _COUNTED.fullmatch(text) else -1
