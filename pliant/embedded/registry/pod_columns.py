"""Table columns of pods, with the status that kubectl prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _ContainerSummary:
    """What the statuses of the containers of a pod say together."""

    reason: str
    ready: int
    restarted: Sequence[Object]
    """The statuses of the containers whose restarts count."""


def pod_status_text(pod: Object) -> str:
    """Return the STATUS of `kubectl get pods`: Pending, Init:0/1, CrashLoopBackOff, Terminating and so on."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return _summarize_containers(pod).reason


def _summarize_containers(pod: Object) -> _ContainerSummary:
    """Walk through the init containers until one is not done; if all are, through the containers."""
    status, sidecars = pod.get("status") or {}, _sidecar_names(pod)
    reason = status.get("reason") or status.get("phase") or ""
    if _find_condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    walked: list[Object] = []
    ready, is_initializing = 0, False
    for container in status.get("initContainerStatuses") or ():
        walked.append(container)
        terminated = (container.get("state") or {}).get("terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("started") and container["name"] in sidecars:
            ready += bool(container.get("ready"))
            continue
        reason, is_initializing = _init_text(pod, container, len(walked) - 1), True
        break
    if is_initializing and _find_condition(pod, "Initialized").get("status") != "True":
        return _ContainerSummary(reason, ready, walked)
    containers = _container_statuses(pod)
    restarted = [*(each for each in walked if each["name"] in sidecars), *containers]
    return _ContainerSummary(_container_status_text(pod, reason), ready + sum(map(_is_ready, containers)), restarted)


def _init_text(pod: Object, container: Object, index: int) -> str:
    state = container.get("state") or {}
    terminated, waiting = state.get("terminated"), state.get("waiting")
    if terminated is not None:
        return f"Init:{_termination_text(terminated)}"
    if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
        return f"Init:{waiting['reason']}"
    return f"Init:{index}/{len((pod.get('spec') or {}).get('initContainers') or ())}"


def _container_status_text(pod: Object, default: str) -> str:
    any_running, failure = False, ""
    for container in reversed(_container_statuses(pod)):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            default = state["waiting"]["reason"]
        elif (terminated := state.get("terminated")) is not None:
            default = _termination_text(terminated)
            failure = default if terminated.get("exitCode") else failure
        elif _is_ready(container):
            any_running = True
    if default != "Completed":
        return default
    if any_running and _find_condition(pod, "Ready").get("status") == "True":
        return "Running"
    return failure or ("NotReady" if any_running else default)


def _is_ready(container: Object) -> bool:
    """Return whether a container runs and is ready; one that waits for a reason or has ended does not."""
    state = container.get("state") or {}
    is_waiting = bool((state.get("waiting") or {}).get("reason"))
    return bool(container.get("ready")) and "running" in state and not is_waiting and state.get("terminated") is None


def _termination_text(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _container_statuses(pod: Object) -> list[Any]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _sidecar_names(pod: Object) -> set[str]:
    inits = (pod.get("spec") or {}).get("initContainers") or ()
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}


def _find_condition(pod: Object, condition_type: str) -> Object:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == condition_type:
            return dict(condition)
    return {}


def _ready_cell(pod: Object, now: datetime) -> str:
    total = len((pod.get("spec") or {}).get("containers") or ()) + len(_sidecar_names(pod))
    return f"{_summarize_containers(pod).ready}/{total}"


def _restarts_cell(pod: Object, now: datetime) -> str:
    containers = _summarize_containers(pod).restarted
    count = sum(container.get("restartCount", 0) for container in containers)
    last = max(_last_termination_times(containers), default=None)
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
