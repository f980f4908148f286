"""Table columns of pods, with the status that kubectl prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.tables import (
    AGE_COLUMN,
    NAME_COLUMN,
    field_cell,
    format_duration,
    make_column,
    parse_timestamp,
)

Object = Mapping[str, Any]


def pod_status_text(pod: Object) -> str:
    """Return the STATUS of `kubectl get pods`: Pending, Init:0/1, CrashLoopBackOff, Terminating and so on."""
    status = pod.get("status") or {}
    phase = status.get("phase") or ""
    text = status.get("reason") or phase
    if _find_condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        text = "SchedulingGated"
    text = _init_status_text(pod) or _container_status_text(pod, text)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return text


def _init_status_text(pod: Object) -> str:
    status = pod.get("status") or {}
    if _find_condition(pod, "Initialized").get("status") == "True":
        return ""
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("started") and container["name"] in _sidecar_names(pod):
            continue
        if terminated is not None:
            return f"Init:{_termination_text(terminated)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _container_status_text(pod: Object, default: str) -> str:
    any_running = False
    for container in reversed(_container_statuses(pod)):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            default = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            default = _termination_text(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            any_running = True
    if default == "Completed" and any_running:
        return "Running" if _find_condition(pod, "Ready").get("status") == "True" else "NotReady"
    return default


def _termination_text(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _container_statuses(pod: Object) -> list[Any]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _sidecar_names(pod: Object) -> set[str]:
    inits = (pod.get("spec") or {}).get("initContainers") or ()
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}


def _sidecar_statuses(pod: Object) -> list[Any]:
    names = _sidecar_names(pod)
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return [each for each in statuses if each["name"] in names]


def _find_condition(pod: Object, condition_type: str) -> Object:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            return dict(condition)
    return {}


def _ready_cell(pod: Object, now: datetime) -> str:
    ready = sum(
        bool(container.get("ready")) and "running" in (container.get("state") or {})
        for container in (*_container_statuses(pod), *_sidecar_statuses(pod))
    )
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ()) + len(_sidecar_names(pod))}"


def _restarts_cell(pod: Object, now: datetime) -> str:
    status = pod.get("status") or {}
    long_running = [*_container_statuses(pod), *_sidecar_statuses(pod)]
    containers = status.get("initContainerStatuses") if _init_status_text(pod) else long_running
    count = sum(container.get("restartCount", 0) for container in containers or ())
    last = max(_last_termination_times(containers or ()), default=None)
    return f"{count} ({format_duration(now - last)} ago)" if count and last is not None else str(count)


def _last_termination_times(containers: Any) -> Iterator[datetime]:
    for container in containers:
        finished_at = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if (parsed := parse_timestamp(finished_at)) is not None:
            yield parsed


def _readiness_gates_cell(pod: Object, now: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    met = sum(_find_condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{met}/{len(gates)}"


_RESTARTS_DESCRIPTION = (
    "The number of times the containers in this pod have been restarted "
    "and when the last container in this pod has restarted."
)
POD_COLUMNS: Final = (
    NAME_COLUMN,
    make_column("Ready", _ready_cell, "The aggregate readiness state of this pod for accepting traffic."),
    make_column("Status", lambda pod, now: pod_status_text(pod), "The aggregate status of the containers in this pod."),
    make_column("Restarts", _restarts_cell, _RESTARTS_DESCRIPTION),
    AGE_COLUMN,
    make_column("IP", field_cell("status.podIP", "<none>"), "podIP address allocated to the pod.", wide=True),
    make_column(
        "Node",
        field_cell("spec.nodeName", "<none>"),
        "NodeName indicates in which node this pod is scheduled.",
        wide=True,
    ),
    make_column(
        "Nominated Node",
        field_cell("status.nominatedNodeName", "<none>"),
        "nominatedNodeName is set only when this pod preempts other pods on the node.",
        wide=True,
    ),
    make_column("Readiness Gates", _readiness_gates_cell, "Readiness gates whose conditions are true.", wide=True),
)
