"""What is wrong with the nodes that pods sit on."""

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
NODE_INDEX = "node"
"""The index of pods by the node they sit on."""


def node_index_keys(pod: Pod) -> Iterable[str]:
    """Under which node a pod is found in the index; under none before it has one."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class _NodeProblem(NamedTuple):
    """Something that is the matter with a node."""

    description: str
    since: datetime | None
    device: str = ""
    """The kind of device concerned; empty where it is the node as a whole."""


class NodeFaultDetector:
    """Tells pods' faults by their nodes; what was noticed when is kept, for not everything says since when."""

    def __init__(self, nodes: ObjectStore[Node], clock: Clock) -> None:
        self.is_enabled = False
        """Whether nodes may be seen at all; otherwise none is ever at fault."""
        self._nodes = nodes
        self._clock = clock
        self._noticed_at: dict[str, dict[str, datetime]] = {}

    def fault_for_pod(self, pod: Pod) -> NodeFault | None:
        """What is wrong with the node of a pod, as far as it concerns this pod."""
        name = pod.spec.node_name
        if not name or not self.is_enabled:
            return None
        node = self._nodes.get("", name)
        ills = [_NodeProblem("is gone", None)] if node is None else list(node_problems(node))
        noticed = self._track_problems(name, ills)
        devices = requested_devices(pod)
        for ill in ills:
            if not ill.device or any(_matches_device(ill.device, device) for device in devices):
                # Other people's clocks may run ahead of ours.
                since = min(ill.since or noticed[ill.description], noticed[ill.description])
                return NodeFault(description=ill.description, since=since, is_dead=not ill.device)
        return None

    def _track_problems(self, node: str, problems: list[_NodeProblem]) -> dict[str, datetime]:
        """When each of its ills was first seen, whomever it concerns; what is over is forgotten."""
        if not problems:
            self._noticed_at.pop(node, None)
            return {}
        now, known = self._clock.now(), self._noticed_at.get(node, {})
        self._noticed_at[node] = {ill.description: known.get(ill.description, now) for ill in problems}
        return self._noticed_at[node]


def node_problems(node: Node) -> Iterator[_NodeProblem]:
    """All that is the matter with a node, the gravest first."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            why = f" ({condition.reason})" if condition.reason else ""
            yield _NodeProblem(f"is not ready{why}", condition.last_transition_time)
    for taint in node.spec.taints:
        if taint.key == OUT_OF_SERVICE_TAINT:
            yield _NodeProblem("is out of service", None)
    for condition in node.status.conditions:
        device = _DEVICE_PATTERN.search(condition.type)
        if device is not None and _is_faulty_condition(condition.type, condition.status):
            told = f"{condition.type}: {condition.message}" if condition.message else condition.type
            yield _NodeProblem(f"has a device fault ({told})", condition.last_transition_time, device[0].lower())
    for taint in node.spec.taints:
        device = _DEVICE_PATTERN.search(taint.key)
        if device is not None and _FAULT_PATTERN.search(taint.key):
            yield _NodeProblem(f"has a device fault (taint {taint.key})", None, device[0].lower())


def requested_devices(pod: Pod) -> frozenset[str]:
    """The extended resources a pod asks for: `nvidia.com/gpu`."""
    names = (name for container in pod.spec.containers for name in container.resources.limits)
    return frozenset(name for name in names if "/" in name and not name.startswith(_NON_DEVICE_PREFIXES))


def _is_faulty_condition(condition_type: str, status: str) -> bool:
    """`GPUUnhealthy` is bad when True, `GPUHealthy` when False; who knows nothing says nothing."""
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
