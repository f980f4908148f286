"""Detection of node faults that affect pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import Node, Pod
from pliant.model.observed import NodeFault
from pliant.runtime.clock import Clock

_DEVICE_PATTERN = re.compile(r"gpu|npu|tpu|xpu|hpu|dcu|mlu|xid|nvlink|nvidia|gaudi|accelerator|device", re.IGNORECASE)
_FAULT_PATTERN = re.compile(r"fault|fail|error|unhealthy|lost|problem|broken|bad|xid|dead|degraded", re.IGNORECASE)
_HEALTHY_PATTERN = re.compile(r"ready|healthy|ok$|available", re.IGNORECASE)
_GENERIC_DEVICE_WORDS = frozenset({"xid", "nvlink", "accelerator", "device"})
_NVIDIA_WORDS = frozenset({"gpu", "nvidia", "xid", "nvlink"})
_NON_DEVICE_PREFIXES = ("kubernetes.io/", "hugepages-", "requests.", "limits.")
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
NODE_INDEX = "node"  # the index of pods by node name


def node_index_keys(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class _NodeProblem(NamedTuple):
    description: str
    since: datetime | None
    device: str = ""  # the kind of device affected; empty if the whole node is affected


class NodeFaultDetector:
    """Finds the faults of pods' nodes; it keeps when it first noticed each, as some faults have no timestamp."""

    def __init__(self, nodes: ObjectStore[Node], clock: Clock) -> None:
        self.is_enabled = False  # whether the operator can list nodes; otherwise no fault is ever reported
        self._nodes = nodes
        self._clock = clock
        self._noticed_at: dict[str, dict[str, datetime]] = {}

    def fault_for_pod(self, pod: Pod) -> NodeFault | None:
        name = pod.spec.node_name
        if not name or not self.is_enabled:
            return None
        node = self._nodes.get("", name)
        problems = [_NodeProblem("is gone", None)] if node is None else list(node_problems(node))
        noticed = self._track_problems(name, problems)
        devices = requested_devices(pod)
        for problem in problems:
            if not problem.device or any(_matches_device(problem.device, device) for device in devices):
                # The node's clock may be ahead of the operator's.
                since = min(problem.since or noticed[problem.description], noticed[problem.description])
                return NodeFault(description=problem.description, since=since, is_dead=not problem.device)
        return None

    def _track_problems(self, node: str, problems: list[_NodeProblem]) -> dict[str, datetime]:
        """Return when each problem was first noticed; forget problems that are over."""
        if not problems:
            self._noticed_at.pop(node, None)
            return {}
        now, known = self._clock.now(), self._noticed_at.get(node, {})
        self._noticed_at[node] = {problem.description: known.get(problem.description, now) for problem in problems}
        return self._noticed_at[node]


def node_problems(node: Node) -> Iterator[_NodeProblem]:
    """Yield the problems of a node, the most severe first."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            reason = f" ({condition.reason})" if condition.reason else ""
            yield _NodeProblem(f"is not ready{reason}", condition.last_transition_time)
    for taint in node.spec.taints:
        if taint.key == OUT_OF_SERVICE_TAINT:
            yield _NodeProblem("is out of service", None)
    for condition in node.status.conditions:
        device = _DEVICE_PATTERN.search(condition.type)
        if device is not None and _is_faulty_condition(condition.type, condition.status):
            detail = f"{condition.type}: {condition.message}" if condition.message else condition.type
            yield _NodeProblem(f"has a device fault ({detail})", condition.last_transition_time, device[0].lower())
    for taint in node.spec.taints:
        device = _DEVICE_PATTERN.search(taint.key)
        if device is not None and _FAULT_PATTERN.search(taint.key):
            yield _NodeProblem(f"has a device fault (taint {taint.key})", None, device[0].lower())


def requested_devices(pod: Pod) -> frozenset[str]:
    """Return the extended resources in the pod's limits, for example `nvidia.com/gpu`."""
    names = (name for container in pod.spec.containers for name in container.resources.limits)
    return frozenset(name for name in names if "/" in name and not name.startswith(_NON_DEVICE_PREFIXES))


def _is_faulty_condition(condition_type: str, status: str) -> bool:
    """Return whether `GPUUnhealthy` is True or `GPUHealthy` is False; Unknown is no fault."""
    if _FAULT_PATTERN.search(condition_type):
        return status == "True"
    return status == "False" and _HEALTHY_PATTERN.search(condition_type) is not None


def _matches_device(device_word: str, resource: str) -> bool:
    resource = resource.lower()
    return (
        device_word in resource
        or device_word in _GENERIC_DEVICE_WORDS
        or (device_word in _NVIDIA_WORDS and "nvidia" in resource)
    )
