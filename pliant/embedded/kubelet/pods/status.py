"""Compute the status of a pod, its phase, conditions and container statuses, from records of its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pliant.embedded.kubelet.runtime.messages import ContainerExit

JsonObject = Mapping[str, Any]
StatusObject = dict[str, Any]

_CREATING_STATE = {"waiting": {"reason": "ContainerCreating"}}
_INITIALIZING_STATE = {"waiting": {"reason": "PodInitializing"}}


@dataclass(slots=True, kw_only=True)
class ContainerRecord:
    """The state of one container of a pod."""

    spec: JsonObject
    is_init: bool = False
    is_ephemeral: bool = False
    restart_count: int = 0
    state: StatusObject = field(default_factory=lambda: dict(_CREATING_STATE))
    last_state: StatusObject = field(default_factory=dict)
    container_id: str = ""
    restart_policy: str = "Always"
    has_started: bool = False
    """It runs and has passed its startup probe, if any."""
    has_passed_readiness: bool = False
    """It has passed its readiness probe, if any."""
    has_ever_started: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def is_init_done(self) -> bool:
        """Whether the next container may start after this init container."""
        return self.has_ever_started if self.is_sidecar else self.has_succeeded

    @property
    def is_ready(self) -> bool:
        return self.is_running and self.has_started and self.has_passed_readiness

    @property
    def terminated_state(self) -> StatusObject | None:
        """The terminated state of the last run, if the container is not running."""
        return self.state.get("terminated") or (self.last_state.get("terminated") if "waiting" in self.state else None)

    @property
    def has_succeeded(self) -> bool:
        return self.terminated_state is not None and self.terminated_state["exitCode"] == 0

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    def set_running(self, at: str, container_id: str) -> None:
        self.state = {"running": {"startedAt": at}}
        self.container_id = container_id
        self.has_started = not self.spec.get("startupProbe")
        self.has_passed_readiness = not self.spec.get("readinessProbe")

    def set_waiting(self, reason: str, message: str = "") -> None:
        if "terminated" in self.state:
            self.last_state = self.state
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def count_restart(self) -> None:
        """Increment the restart count before the container is started again."""
        if "terminated" in self.state:
            self.last_state = self.state
        self.restart_count += 1

    def set_terminated(self, at: str, exit_status: ContainerExit, reason: str = "", message: str = "") -> None:
        started_at = (self.state.get("running") or {}).get("startedAt") or at
        reason = reason or ("Error" if exit_status.code else "Completed")
        terminated: StatusObject = {"exitCode": exit_status.code, "reason": reason}
        if exit_status.signal:
            terminated["signal"] = exit_status.signal
        if message:
            terminated["message"] = message
        terminated |= {"startedAt": started_at, "finishedAt": at, "containerID": self.container_id}
        self.state = {"terminated": terminated}

    def build_status(self) -> StatusObject:
        """Return the entry of this container in the pod status."""
        runs_to_completion = self.is_init and not self.is_sidecar
        return {
            "name": self.name,
            "image": self.spec.get("image") or "",
            "imageID": "",
            "containerID": self.container_id,
            "ready": self.has_succeeded if runs_to_completion else self.is_ready and not self.is_ephemeral,
            "started": self.is_running and self.has_started and not self.is_ephemeral,
            "restartCount": self.restart_count,
            "state": self.state,
            "lastState": self.last_state,
        }


def find_container_status(pod: JsonObject, container: str) -> JsonObject:
    """Return the status of any container of a pod, or nothing."""
    status = pod.get("status") or {}
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    statuses = (each for field in fields for each in status.get(field) or ())
    return next((each for each in statuses if each["name"] == container), {})


ContainerRecords = Sequence[ContainerRecord]


def restore_records(pod_spec: JsonObject, pod_status: JsonObject) -> tuple[ContainerRecords, ContainerRecords]:
    """Return the records of a pod's init containers and containers, restored from its status."""
    statuses = {each["name"]: each for each in pod_status.get("containerStatuses") or ()}
    init_statuses = {each["name"]: each for each in pod_status.get("initContainerStatuses") or ()}
    init_records = [_restore_record(spec, init_statuses, is_init=True) for spec in pod_spec.get("initContainers") or ()]
    main_records = [_restore_record(spec, statuses, is_init=False) for spec in pod_spec["containers"]]
    for record in main_records if init_records else ():
        if not record.terminated_state and not record.is_running:
            record.state = dict(_INITIALIZING_STATE)
    return init_records, main_records


def restore_ephemeral_records(pod_spec: JsonObject, pod_status: JsonObject) -> list[ContainerRecord]:
    """Return the records of the ephemeral containers that have been started before."""
    statuses = {each["name"]: each for each in pod_status.get("ephemeralContainerStatuses") or ()}
    specs = [each for each in pod_spec.get("ephemeralContainers") or () if each["name"] in statuses]
    return [replace(_restore_record(spec, statuses, is_init=False), is_ephemeral=True) for spec in specs]


def pod_phase(restart_policy: str, init_records: ContainerRecords, main_records: ContainerRecords) -> str:
    """Return the phase of a pod, by the rules of the Kubernetes kubelet."""
    has_running_sidecar = any(record.is_sidecar and record.is_running for record in init_records)
    finished = [record for record in init_records if record.terminated_state and not record.is_sidecar]
    if restart_policy == "Never" and not all(record.has_succeeded for record in finished):
        return "Pending" if has_running_sidecar else "Failed"
    if not all(record.is_init_done for record in init_records):
        return "Pending"
    if any(not record.is_running and not record.terminated_state for record in main_records):
        return "Pending"
    if any(record.is_running for record in main_records) or restart_policy == "Always" or has_running_sidecar:
        return "Running"
    if all(record.has_succeeded for record in main_records):
        return "Succeeded"
    return "Failed" if restart_policy == "Never" else "Running"


def pod_conditions(
    old_conditions: Iterable[JsonObject], init_records: ContainerRecords, main_records: ContainerRecords, now: str
) -> list[StatusObject]:
    """Return the conditions of a pod; an unchanged condition keeps its lastTransitionTime."""
    incomplete = [record.name for record in init_records if not record.is_init_done]
    long_running = (*(record for record in init_records if record.is_sidecar), *main_records)
    unready = [record.name for record in long_running if not record.is_ready]
    not_initialized: StatusObject = {}
    if incomplete:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        not_initialized = {"reason": "ContainersNotInitialized", "message": message}
    not_ready: StatusObject = {}
    if all(record.has_succeeded for record in main_records):
        not_ready = {"reason": "PodCompleted"}
    elif unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        not_ready = {"reason": "ContainersNotReady", "message": message}
    conditions: dict[str, StatusObject] = {each["type"]: dict(each) for each in old_conditions}
    for new in (
        _build_condition("Initialized", not incomplete, not_initialized),
        _build_condition("Ready", not unready, not_ready),
        _build_condition("ContainersReady", not unready, not_ready),
    ):
        old = conditions.get(new["type"], {})
        is_unchanged = old.get("status") == new["status"] and old.get("lastTransitionTime")
        new["lastTransitionTime"] = old["lastTransitionTime"] if is_unchanged else now
        conditions[new["type"]] = new
    return list(conditions.values())


def _build_condition(condition_type: str, is_true: bool, reason_and_message: StatusObject) -> StatusObject:
    status = "True" if is_true else "False"
    return {"type": condition_type, "status": status, "lastProbeTime": None, **reason_and_message}


def _restore_record(container_spec: JsonObject, statuses: JsonObject, *, is_init: bool) -> ContainerRecord:
    status = statuses.get(container_spec["name"]) or {}
    return ContainerRecord(
        spec=container_spec,
        is_init=is_init,
        restart_count=status.get("restartCount") or 0,
        state=status.get("state") or dict(_CREATING_STATE),
        last_state=status.get("lastState") or {},
        container_id=status.get("containerID") or "",
    )
