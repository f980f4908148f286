"""What is wrong with the nodes that pods sit on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from pliant.kube.objects import Node, Pod
from pliant.kube.store import ObjectStore
from pliant.model.observed import NodeFault
from pliant.runtime.clock import Clock

_DEVICE = re.compile(r"gpu|npu|tpu|xpu|hpu|dcu|mlu|xid|nvlink|nvidia|gaudi|accelerator|device", re.IGNORECASE)
_BROKEN = re.compile(r"fault|fail|error|unhealthy|lost|problem|broken|bad|xid|dead|degraded", re.IGNORECASE)
_SOUND = re.compile(r"ready|healthy|ok$|available", re.IGNORECASE)
_ANY_DEVICE = frozenset({"xid", "nvlink", "accelerator", "device"})
_NVIDIA = frozenset({"gpu", "nvidia", "xid", "nvlink"})
_ORDINARY = ("kubernetes.io/", "hugepages-", "requests.", "limits.")
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NODE = "node"
"""The index of pods by the node they sit on."""


def nodes_of(pod: Pod) -> Iterable[str]:
    """Under which node a pod is found in the index; under none before it has one."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class _Ill(NamedTuple):
    """Something that is the matter with a node."""

    what: str
    since: datetime | None
    device: str = ""
    """The kind of device concerned; empty where it is the node as a whole."""


class NodeWatch:
    """Tells pods' faults by their nodes; what was noticed when is kept, for not everything says since when."""

    def __init__(self, nodes: ObjectStore[Node], clock: Clock) -> None:
        self.is_known = False
        """Whether nodes may be seen at all; otherwise none is ever at fault."""
        self._nodes = nodes
        self._clock = clock
        self._noticed: dict[str, dict[str, datetime]] = {}

    def fault_under(self, pod: Pod) -> NodeFault | None:
        """What is wrong with the node of a pod, as far as it concerns this pod."""
        name = pod.spec.node_name
        if not name or not self.is_known:
            return None
        node = self._nodes.get("", name)
        ills = [_Ill("is gone", None)] if node is None else list(ills_of(node))
        noticed = self._notice(name, ills)
        devices = devices_of(pod)
        for ill in ills:
            if not ill.device or any(_is_such(ill.device, device) for device in devices):
                # Other people's clocks may run ahead of ours.
                since = min(ill.since or noticed[ill.what], noticed[ill.what])
                return NodeFault(what=ill.what, since=since, is_dead=not ill.device)
        return None

    def _notice(self, node: str, ills: list[_Ill]) -> dict[str, datetime]:
        """When each of its ills was first seen, whomever it concerns; what is over is forgotten."""
        if not ills:
            self._noticed.pop(node, None)
            return {}
        now, known = self._clock.now(), self._noticed.get(node, {})
        self._noticed[node] = {ill.what: known.get(ill.what, now) for ill in ills}
        return self._noticed[node]


def ills_of(node: Node) -> Iterator[_Ill]:
    """All that is the matter with a node, the gravest first."""
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            why = f" ({condition.reason})" if condition.reason else ""
            yield _Ill(f"is not ready{why}", condition.last_transition_time)
    for taint in node.spec.taints:
        if taint.key == OUT_OF_SERVICE:
            yield _Ill("is out of service", None)
    for condition in node.status.conditions:
        device = _DEVICE.search(condition.type)
        if device is not None and _is_bad(condition.type, condition.status):
            told = f"{condition.type}: {condition.message}" if condition.message else condition.type
            yield _Ill(f"has a device fault ({told})", condition.last_transition_time, device[0].lower())
    for taint in node.spec.taints:
        device = _DEVICE.search(taint.key)
        if device is not None and _BROKEN.search(taint.key):
            yield _Ill(f"has a device fault (taint {taint.key})", None, device[0].lower())


def devices_of(pod: Pod) -> frozenset[str]:
    """The extended resources a pod asks for: `nvidia.com/gpu`."""
    names = (name for container in pod.spec.containers for name in container.resources.limits)
    return frozenset(name for name in names if "/" in name and not name.startswith(_ORDINARY))


def _is_bad(kind: str, status: str) -> bool:
    """`GPUUnhealthy` is bad when True, `GPUHealthy` when False; who knows nothing says nothing."""
    if _BROKEN.search(kind):
        return status == "True"
    return status == "False" and _SOUND.search(kind) is not None


def _is_such(word: str, resource: str) -> bool:
    resource = resource.lower()
    return word in resource or word in _ANY_DEVICE or (word in _NVIDIA and "nvidia" in resource)
