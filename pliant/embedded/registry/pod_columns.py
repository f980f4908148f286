"""The columns of pods, with the status words kubectl users know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.registry.table_columns import (
    AGE_COLUMN,
    NAME_COLUMN,
    TableColumn,
    format_duration,
    parse_timestamp,
)

Object = Mapping[str, Any]


def pod_status_text(pod: Object) -> str:
    """One word for where a pod is: Pending, ContainerCreating, Init:0/1, CrashLoopBackOff, Terminating…"""
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    word = status.get("reason") or phase
    if _find_condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    word = _init_status_text(pod) or _container_status_text(pod, word)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _init_status_text(pod: Object) -> str:
    """What holds up a pod that still prepares itself; nothing once it is done."""
    status = pod.get("status") or {}
    if _find_condition(pod, "Initialized").get("status") == "True":
        return ""
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container.get("started") and container["name"] in _sidecar_names(pod):
            continue
        if ended is not None:
            return f"Init:{_termination_text(ended)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _container_status_text(pod: Object, default: str) -> str:
    """The word of the first container that has one of its own."""
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
    """Names of the init containers that go on running beside the others."""
    inits = (pod.get("spec") or {}).get("initContainers") or ()
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}


def _sidecar_statuses(pod: Object) -> list[Any]:
    names = _sidecar_names(pod)
    told = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return [each for each in told if each["name"] in names]


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
    lasting = [*_container_statuses(pod), *_sidecar_statuses(pod)]
    containers = status.get("initContainerStatuses") if _init_status_text(pod) else lasting
    count = sum(container.get("restartCount", 0) for container in containers or ())
    last = max(_last_termination_times(containers or ()), default=None)
    return f"{count} ({format_duration(now - last)} ago)" if count and last is not None else str(count)


def _last_termination_times(containers: Any) -> Iterator[datetime]:
    for container in containers:
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if (moment := parse_timestamp(ended)) is not None:
            yield moment


def _readiness_gates_cell(pod: Object, now: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    met = sum(_find_condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{met}/{len(gates)}"


POD_COLUMNS: Final = (
    NAME_COLUMN,
    TableColumn(name="Ready", description="Ready containers of all containers.", cell=_ready_cell),
    TableColumn(name="Status", description="Where the pod is in its life.", cell=lambda pod, now: pod_status_text(pod)),
    TableColumn(name="Restarts", description="How often its containers were started again.", cell=_restarts_cell),
    AGE_COLUMN,
    TableColumn(
        name="IP",
        priority=1,
        description="Address of the pod.",
        cell=lambda pod, now: (pod.get("status") or {}).get("podIP") or "<none>",
    ),
    TableColumn(
        name="Node",
        priority=1,
        description="Node the pod is bound to.",
        cell=lambda pod, now: (pod.get("spec") or {}).get("nodeName") or "<none>",
    ),
    TableColumn(
        name="Nominated Node",
        priority=1,
        description="Node where room is being made for the pod.",
        cell=lambda pod, now: (pod.get("status") or {}).get("nominatedNodeName") or "<none>",
    ),
    TableColumn(
        name="Readiness Gates", priority=1, description="Readiness gates that are met.", cell=_readiness_gates_cell
    ),
)
