"""The columns of pods, with the status words kubectl users know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pliant.embedded.catalog.columns import AGE, NAME, Column
from pliant.embedded.catalog.durations import human_duration, moment_of

Object = Mapping[str, Any]


def pod_word(pod: Object) -> str:
    """One word for where a pod is: Pending, ContainerCreating, Init:0/1, CrashLoopBackOff, Terminating…"""
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    word = status.get("reason") or phase
    if _condition(pod, "PodScheduled").get("reason") == "SchedulingGated":
        word = "SchedulingGated"
    word = _init_word(pod) or _main_word(pod, word)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in ("Succeeded", "Failed"):
            return "Terminating"
    return word


def _init_word(pod: Object) -> str:
    """What holds up a pod that still prepares itself; nothing once it is done."""
    status = pod.get("status") or {}
    if _condition(pod, "Initialized").get("status") == "True":
        return ""
    total = len((pod.get("spec") or {}).get("initContainers") or ())
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if container.get("started") and container["name"] in _sidecars(pod):
            continue
        if ended is not None:
            return f"Init:{_ended_word(ended)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{total}"
    return ""


def _main_word(pod: Object, word: str) -> str:
    """The word of the first container that has one of its own."""
    any_running = False
    for container in reversed(_statuses(pod)):
        state = container.get("state") or {}
        if (state.get("waiting") or {}).get("reason"):
            word = state["waiting"]["reason"]
        elif state.get("terminated") is not None:
            word = _ended_word(state["terminated"])
        elif container.get("ready") and state.get("running") is not None:
            any_running = True
    if word == "Completed" and any_running:
        return "Running" if _condition(pod, "Ready").get("status") == "True" else "NotReady"
    return word


def _ended_word(ended: Object) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _statuses(pod: Object) -> list[Any]:
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def _sidecars(pod: Object) -> set[str]:
    """Names of the init containers that go on running beside the others."""
    inits = (pod.get("spec") or {}).get("initContainers") or ()
    return {each["name"] for each in inits if each.get("restartPolicy") == "Always"}


def _sidecar_statuses(pod: Object) -> list[Any]:
    names = _sidecars(pod)
    told = (pod.get("status") or {}).get("initContainerStatuses") or ()
    return [each for each in told if each["name"] in names]


def _condition(pod: Object, kind: str) -> Object:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _ready(pod: Object, now: datetime) -> str:
    ready = sum(
        bool(container.get("ready")) and "running" in (container.get("state") or {})
        for container in (*_statuses(pod), *_sidecar_statuses(pod))
    )
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or ()) + len(_sidecars(pod))}"


def _restarts(pod: Object, now: datetime) -> str:
    status = pod.get("status") or {}
    lasting = [*_statuses(pod), *_sidecar_statuses(pod)]
    containers = status.get("initContainerStatuses") if _init_word(pod) else lasting
    count = sum(container.get("restartCount", 0) for container in containers or ())
    last = max(_ends(containers or ()), default=None)
    return f"{count} ({human_duration(now - last)} ago)" if count and last is not None else str(count)


def _ends(containers: Any) -> Iterator[datetime]:
    for container in containers:
        ended = ((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if (moment := moment_of(ended)) is not None:
            yield moment


def _gates(pod: Object, now: datetime) -> str:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    if not gates:
        return "<none>"
    met = sum(_condition(pod, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{met}/{len(gates)}"


POD_COLUMNS: Final = (
    NAME,
    Column(name="Ready", description="Ready containers of all containers.", cell=_ready),
    Column(name="Status", description="Where the pod is in its life.", cell=lambda pod, now: pod_word(pod)),
    Column(name="Restarts", description="How often its containers were started again.", cell=_restarts),
    AGE,
    Column(
        name="IP",
        priority=1,
        description="Address of the pod.",
        cell=lambda pod, now: (pod.get("status") or {}).get("podIP") or "<none>",
    ),
    Column(
        name="Node",
        priority=1,
        description="Node the pod is bound to.",
        cell=lambda pod, now: (pod.get("spec") or {}).get("nodeName") or "<none>",
    ),
    Column(
        name="Nominated Node",
        priority=1,
        description="Node where room is being made for the pod.",
        cell=lambda pod, now: (pod.get("status") or {}).get("nominatedNodeName") or "<none>",
    ),
    Column(name="Readiness Gates", priority=1, description="Readiness gates that are met.", cell=_gates),
)
