"""What a kubelet tells of a pod: its phase, conditions and containers, from plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pliant.embedded.node.link import Ending

Status = dict[str, Any]

_CREATING = {"waiting": {"reason": "ContainerCreating"}}
_INITIALIZING = {"waiting": {"reason": "PodInitializing"}}


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """One container of a pod: what it is, how it fares, and how often it was restarted."""

    spec: Mapping[str, Any]
    is_init: bool = False
    restarts: int = 0
    state: Status = field(default_factory=lambda: dict(_CREATING))
    last: Status = field(default_factory=dict)
    container_id: str = ""
    policy: str = "Always"
    """When it is started anew."""
    has_started: bool = False
    """Its startup probe was passed, or it has none and runs."""
    is_fit: bool = False
    """Its readiness probe is passed, or it has none."""
    has_come_up: bool = False
    """It has started at least once in this life of the pod."""

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that goes on running beside the others."""
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def has_prepared(self) -> bool:
        """Whether, as an init container, it holds up nobody any longer."""
        return self.has_come_up if self.is_sidecar else self.has_succeeded

    @property
    def is_ready(self) -> bool:
        """Whether it runs and says that it can be used."""
        return self.is_running and self.has_started and self.is_fit

    @property
    def ended(self) -> Status | None:
        """How it ended, if it has and does not run again yet."""
        return self.state.get("terminated") or (self.last.get("terminated") if "waiting" in self.state else None)

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended well."""
        return self.ended is not None and self.ended["exitCode"] == 0

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return "running" in self.state

    def note_running(self, at: str, container_id: str) -> None:
        """It runs, for the first time or again."""
        self.state = {"running": {"startedAt": at}}
        self.container_id = container_id
        self.has_started = not self.spec.get("startupProbe")
        self.is_fit = not self.spec.get("readinessProbe")

    def note_waiting(self, reason: str, message: str = "") -> None:
        """It does not run yet, or not again yet."""
        if "terminated" in self.state:
            self.last = self.state
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def note_restart(self) -> None:
        """It is about to be started once more."""
        if "terminated" in self.state:
            self.last = self.state
        self.restarts += 1

    def note_end(self, at: str, ending: Ending, reason: str = "", message: str = "") -> None:
        """It has ended."""
        started = (self.state.get("running") or {}).get("startedAt") or at
        words: Status = {"exitCode": ending.code, "reason": reason or ("Error" if ending.code else "Completed")}
        if ending.signal:
            words["signal"] = ending.signal
        if message:
            words["message"] = message
        words |= {"startedAt": started, "finishedAt": at, "containerID": self.container_id}
        self.state = {"terminated": words}

    def status(self) -> Status:
        """What the API tells of it."""
        is_passing = self.is_init and not self.is_sidecar
        return {
            "name": self.name,
            "image": self.spec.get("image") or "",
            "imageID": "",
            "containerID": self.container_id,
            "ready": self.has_succeeded if is_passing else self.is_ready,
            "started": self.is_running and self.has_started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last,
        }


def restored(
    spec: Mapping[str, Any], status: Mapping[str, Any]
) -> tuple[list[ContainerRecord], list[ContainerRecord]]:
    """Records of a pod's init containers and containers, as last told."""
    told = {each["name"]: each for each in status.get("containerStatuses") or ()}
    told_init = {each["name"]: each for each in status.get("initContainerStatuses") or ()}
    inits = [_record(each, told_init, is_init=True) for each in spec.get("initContainers") or ()]
    mains = [_record(each, told, is_init=False) for each in spec["containers"]]
    if inits:
        for main in mains:
            main.state = main.state if main.ended or main.is_running else dict(_INITIALIZING)
    return inits, mains


def phase(policy: str, inits: Sequence[ContainerRecord], mains: Sequence[ContainerRecord]) -> str:
    """The phase that follows from the containers, by the kubelet's rules."""
    has_company = any(each.is_sidecar and each.is_running for each in inits)
    if any(_has_failed_for_good(each, policy) for each in inits if not each.is_sidecar):
        return "Pending" if has_company else "Failed"
    if not all(each.has_prepared for each in inits):
        return "Pending"
    if any(not each.is_running and not each.ended for each in mains):
        return "Pending"
    if any(each.is_running for each in mains) or policy == "Always" or has_company:
        return "Running"
    if all(each.has_succeeded for each in mains):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def conditions(
    old: Iterable[Mapping[str, Any]], inits: Sequence[ContainerRecord], mains: Sequence[ContainerRecord], now: str
) -> list[Status]:
    """The conditions of a pod; one that did not change keeps its time."""
    unprepared = [each.name for each in inits if not each.has_prepared]
    unready = [
        each.name for each in (*inits, *mains) if not each.is_ready and (each.is_sidecar or not each.is_init)
    ]
    is_complete = all(each.has_succeeded for each in mains)
    trouble: Status = {}
    if is_complete:
        trouble = {"reason": "PodCompleted"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        trouble = {"reason": "ContainersNotReady", "message": message}
    wanted = [
        _condition("Initialized", not unprepared, _incomplete(unprepared)),
        _condition("Ready", not unready, trouble),
        _condition("ContainersReady", not unready, trouble),
    ]
    before: dict[str, Status] = {each["type"]: dict(each) for each in old}
    for each in wanted:
        was = before.get(each["type"], {})
        same = was.get("status") == each["status"] and was.get("lastTransitionTime")
        each["lastTransitionTime"] = was["lastTransitionTime"] if same else now
        before[each["type"]] = each
    return list(before.values())


def _incomplete(names: Sequence[str]) -> Status:
    if not names:
        return {}
    message = f"containers with incomplete status: [{' '.join(names)}]"
    return {"reason": "ContainersNotInitialized", "message": message}


def _condition(kind: str, holds: bool, trouble: Status) -> Status:
    return {"type": kind, "status": "True" if holds else "False", "lastProbeTime": None, **trouble}


def _has_failed_for_good(record: ContainerRecord, policy: str) -> bool:
    return policy == "Never" and record.ended is not None and not record.has_succeeded


def _record(spec: Mapping[str, Any], told: Mapping[str, Any], *, is_init: bool) -> ContainerRecord:
    known = told.get(spec["name"]) or {}
    return ContainerRecord(
        spec=spec,
        is_init=is_init,
        restarts=known.get("restartCount") or 0,
        state=known.get("state") or dict(_CREATING),
        last=known.get("lastState") or {},
        container_id=known.get("containerID") or "",
    )
