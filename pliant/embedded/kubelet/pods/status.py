"""What a kubelet tells of a pod: its phase, conditions and containers, from plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pliant.embedded.kubelet.runtime.node_agent import ContainerExit

StatusObject = dict[str, Any]

_CREATING_STATE = {"waiting": {"reason": "ContainerCreating"}}
_INITIALIZING_STATE = {"waiting": {"reason": "PodInitializing"}}


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """One container of a pod: what it is, how it fares, and how often it was restarted."""

    spec: Mapping[str, Any]
    is_init: bool = False
    restart_count: int = 0
    state: StatusObject = field(default_factory=lambda: dict(_CREATING_STATE))
    last_state: StatusObject = field(default_factory=dict)
    container_id: str = ""
    restart_policy: str = "Always"
    """When it is started anew."""
    has_started: bool = False
    """Its startup probe was passed, or it has none and runs."""
    has_passed_readiness: bool = False
    """Its readiness probe is passed, or it has none."""
    has_ever_started: bool = False
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
    def is_init_done(self) -> bool:
        """Whether, as an init container, it holds up nobody any longer."""
        return self.has_ever_started if self.is_sidecar else self.has_succeeded

    @property
    def is_ready(self) -> bool:
        """Whether it runs and says that it can be used."""
        return self.is_running and self.has_started and self.has_passed_readiness

    @property
    def terminated_state(self) -> StatusObject | None:
        """How it ended, if it has and does not run again yet."""
        return self.state.get("terminated") or (self.last_state.get("terminated") if "waiting" in self.state else None)

    @property
    def has_succeeded(self) -> bool:
        """Whether it ended well."""
        return self.terminated_state is not None and self.terminated_state["exitCode"] == 0

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return "running" in self.state

    def set_running(self, at: str, container_id: str) -> None:
        """It runs, for the first time or again."""
        self.state = {"running": {"startedAt": at}}
        self.container_id = container_id
        self.has_started = not self.spec.get("startupProbe")
        self.has_passed_readiness = not self.spec.get("readinessProbe")

    def set_waiting(self, reason: str, message: str = "") -> None:
        """It does not run yet, or not again yet."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def count_restart(self) -> None:
        """It is about to be started once more."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.restart_count += 1

    def set_terminated(self, at: str, exit_status: ContainerExit, reason: str = "", message: str = "") -> None:
        """It has ended."""
        started = (self.state.get("running") or {}).get("startedAt") or at
        words: StatusObject = {
            "exitCode": exit_status.code,
            "reason": reason or ("Error" if exit_status.code else "Completed"),
        }
        if exit_status.signal:
            words["signal"] = exit_status.signal
        if message:
            words["message"] = message
        words |= {"startedAt": started, "finishedAt": at, "containerID": self.container_id}
        self.state = {"terminated": words}

    def build_status(self) -> StatusObject:
        """What the API tells of it."""
        is_passing = self.is_init and not self.is_sidecar
        return {
            "name": self.name,
            "image": self.spec.get("image") or "",
            "imageID": "",
            "containerID": self.container_id,
            "ready": self.has_succeeded if is_passing else self.is_ready,
            "started": self.is_running and self.has_started,
            "restartCount": self.restart_count,
            "state": self.state,
            "lastState": self.last_state,
        }


def restore_records(
    pod_spec: Mapping[str, Any], pod_status: Mapping[str, Any]
) -> tuple[list[ContainerRecord], list[ContainerRecord]]:
    """Records of a pod's init containers and containers, as last told."""
    told = {each["name"]: each for each in pod_status.get("containerStatuses") or ()}
    told_init = {each["name"]: each for each in pod_status.get("initContainerStatuses") or ()}
    inits = [_restore_record(each, told_init, is_init=True) for each in pod_spec.get("initContainers") or ()]
    mains = [_restore_record(each, told, is_init=False) for each in pod_spec["containers"]]
    if inits:
        for main in mains:
            main.state = main.state if main.terminated_state or main.is_running else dict(_INITIALIZING_STATE)
    return inits, mains


def pod_phase(
    restart_policy: str, init_records: Sequence[ContainerRecord], main_records: Sequence[ContainerRecord]
) -> str:
    """The phase that follows from the containers, by the kubelet's rules."""
    has_company = any(each.is_sidecar and each.is_running for each in init_records)
    if any(_has_failed_for_good(each, restart_policy) for each in init_records if not each.is_sidecar):
        return "Pending" if has_company else "Failed"
    if not all(each.is_init_done for each in init_records):
        return "Pending"
    if any(not each.is_running and not each.terminated_state for each in main_records):
        return "Pending"
    if any(each.is_running for each in main_records) or restart_policy == "Always" or has_company:
        return "Running"
    if all(each.has_succeeded for each in main_records):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def pod_conditions(
    old_conditions: Iterable[Mapping[str, Any]],
    init_records: Sequence[ContainerRecord],
    main_records: Sequence[ContainerRecord],
    now: str,
) -> list[StatusObject]:
    """The conditions of a pod; one that did not change keeps its time."""
    unprepared = [each.name for each in init_records if not each.is_init_done]
    unready = [
        each.name
        for each in (*init_records, *main_records)
        if not each.is_ready and (each.is_sidecar or not each.is_init)
    ]
    is_complete = all(each.has_succeeded for each in main_records)
    trouble: StatusObject = {}
    if is_complete:
        trouble = {"reason": "PodCompleted"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        trouble = {"reason": "ContainersNotReady", "message": message}
    wanted = [
        _build_condition("Initialized", not unprepared, _not_initialized_reason(unprepared)),
        _build_condition("Ready", not unready, trouble),
        _build_condition("ContainersReady", not unready, trouble),
    ]
    before: dict[str, StatusObject] = {each["type"]: dict(each) for each in old_conditions}
    for each in wanted:
        was = before.get(each["type"], {})
        same = was.get("status") == each["status"] and was.get("lastTransitionTime")
        each["lastTransitionTime"] = was["lastTransitionTime"] if same else now
        before[each["type"]] = each
    return list(before.values())


def _not_initialized_reason(container_names: Sequence[str]) -> StatusObject:
    if not container_names:
        return {}
    message = f"containers with incomplete status: [{' '.join(container_names)}]"
    return {"reason": "ContainersNotInitialized", "message": message}


def _build_condition(condition_type: str, holds: bool, problem: StatusObject) -> StatusObject:
    return {"type": condition_type, "status": "True" if holds else "False", "lastProbeTime": None, **problem}


def _has_failed_for_good(record: ContainerRecord, restart_policy: str) -> bool:
    return restart_policy == "Never" and record.terminated_state is not None and not record.has_succeeded


def _restore_record(
    container_spec: Mapping[str, Any], reported: Mapping[str, Any], *, is_init: bool
) -> ContainerRecord:
    known = reported.get(container_spec["name"]) or {}
    return ContainerRecord(
        spec=container_spec,
        is_init=is_init,
        restart_count=known.get("restartCount") or 0,
        state=known.get("state") or dict(_CREATING_STATE),
        last_state=known.get("lastState") or {},
        container_id=known.get("containerID") or "",
    )
