"""Detection of node faults that affect pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pliant.kube.cache.store import ObjectStore
from pliant.kube.node_drain import drain_state
from pliant.kube.objects import Node, Pod
from pliant.model.observed import NodeFault
from pliant.runtime.clock import Clock, JumpAwareClock
from pliant.schemas.quantity import parse_quantity

_DEVICE_PATTERN = re.compile(r"gpu|npu|tpu|xpu|hpu|dcu|mlu|xid|nvlink|nvidia|gaudi|accelerator|device", re.IGNORECASE)
_FAULT_PATTERN = re.compile(r"fault|fail|error|unhealthy|lost|problem|broken|bad|xid|dead|degraded", re.IGNORECASE)
_HEALTHY_PATTERN = re.compile(r"ready|healthy|ok$|available", re.IGNORECASE)
_GENERIC_DEVICE_WORDS = frozenset({"xid", "nvlink", "accelerator", "device"})
_NVIDIA_WORDS = frozenset({"gpu", "nvidia", "xid", "nvlink"})
_NON_DEVICE_PREFIXES = ("kubernetes.io/", "hugepages-", "requests.", "limits.")
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
NODE_INDEX = "node"  # the index of pods by node name; empty for pods that wait for a node


def node_index_keys(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,)


class _NodeProblem(NamedTuple):
    description: str
    since: datetime | None
    device: str = ""  # the kind of device affected; empty if the whole node is affected


class NodeFaultDetector:
    """Finds the faults of pods' nodes; it keeps when it first noticed each, as some faults have no timestamp."""

    def __init__(self, nodes: ObjectStore[Node], clock: Clock) -> None:
        self.is_enabled = False  # whether the operator can list nodes; otherwise no fault is ever reported
        self._nodes = nodes
        self._clock = JumpAwareClock(clock)
        self._noticed_at: dict[str, dict[str, datetime]] = {}
        self._nodes_with_device_problems: set[str] = set()

    def on_node_changed(self, old: Node | None, new: Node | None) -> set[str]:
        """Note a change of a node; return the keys in NODE_INDEX of the pods that it may concern."""
        if old is not None and new is not None and _pod_relevant_state(old) == _pod_relevant_state(new):
            return set()
        [name] = {node.metadata.name for node in (old, new) if node is not None}
        had_device_problems = name in self._nodes_with_device_problems
        self._nodes_with_device_problems.discard(name)
        if new is not None and any(problem.device for problem in node_problems(new)):
            self._nodes_with_device_problems.add(name)
        # Pods that wait for a node must exclude those with device problems.
        return {name, ""} if had_device_problems or name in self._nodes_with_device_problems else {name}

    def list_unusable_nodes(self, devices: frozenset[str]) -> tuple[str, ...]:
        """Return the nodes on which a new pod might get a faulty device, as no component tells which one it is."""
        if not devices or not self.is_enabled:
            return ()
        nodes = (self._nodes.get("", name) for name in sorted(self._nodes_with_device_problems))
        return tuple(
            node.metadata.name for node in nodes if node is not None and any(_unlocated_problems(node, devices))
        )

    def fault_for_pod(self, pod: Pod) -> NodeFault | None:
        name = pod.spec.node_name
        if not name or not self.is_enabled:
            return None
        node = self._nodes.get("", name)
        problems = [_NodeProblem("is gone", None)] if node is None else list(node_problems(node))
        noticed = self._track_problems(name, problems)
        scheduled_at = _scheduled_at(pod)
        met_since = self._clock.to_present(scheduled_at) if scheduled_at is not None else None
        for problem in problems:
            # The node's clock may be ahead of the operator's.
            since = min(problem.since or noticed[problem.description], noticed[problem.description])
            if node is None or not problem.device or _may_hold_faulty_device(pod, node, problem.device, since):
                # A pod that came later met the fault only then.
                since = self._clock.to_present(since)
                met_at = since if met_since is None else max(since, met_since)
                return NodeFault(description=problem.description, since=met_at, is_dead=not problem.device)
        return None

    def node_of(self, pod: Pod) -> Node | None:
        """Return the node of a pod, if the pod has one and the operator may list nodes."""
        return self._nodes.get("", pod.spec.node_name) if self.is_enabled and pod.spec.node_name else None

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
    return _select_devices(name for container in pod.spec.containers for name in container.resources.limits)


def template_devices(pod_template: Mapping[str, Any]) -> frozenset[str]:
    """Return the extended resources in the limits of a pod template."""
    containers = (pod_template.get("spec") or {}).get("containers") or ()
    limits = ((each.get("resources") or {}).get("limits") or {} for each in containers)
    return _select_devices(name for each in limits for name in each)


def _select_devices(resources: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name in resources if "/" in name and not name.startswith(_NON_DEVICE_PREFIXES))


def _pod_relevant_state(node: Node) -> tuple[object, ...]:
    problems = list(node_problems(node))
    return drain_state(node), (problems, _withdrawn_devices(node)) if problems else ()


def _withdrawn_devices(node: Node) -> frozenset[str]:
    """Return the resources of which the kubelet offers fewer than there are: it knows which devices are faulty."""
    capacity, offered = node.status.capacity, node.status.allocatable
    devices = _select_devices(capacity.keys() & offered.keys())
    return frozenset(each for each in devices if parse_quantity(offered[each]) < parse_quantity(capacity[each]))


def _unlocated_problems(node: Node, devices: frozenset[str]) -> Iterator[_NodeProblem]:
    """Yield the problems of such devices of which the kubelet does not know the faulty one."""
    unknown = devices - _withdrawn_devices(node)
    for problem in node_problems(node):
        if problem.device and any(_matches_device(problem.device, device) for device in unknown):
            yield problem


def _may_hold_faulty_device(pod: Pod, node: Node, device_word: str, since: datetime) -> bool:
    """Return whether a pod holds the faulty device of its node, or may hold it as far as is known."""
    affected = {device for device in requested_devices(pod) if _matches_device(device_word, device)}
    if affected - _withdrawn_devices(node):
        return True  # only the node is known
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    allocated = [each for status in statuses for each in status.allocated_resources_status if each.name in affected]
    if healths := {device.health for each in allocated for device in each.resources}:
        return "Unhealthy" in healths
    # The kubelet does not report the devices of its pods, but it allocates only healthy ones.
    scheduled_at = _scheduled_at(pod)
    return bool(affected) and (scheduled_at is None or scheduled_at <= since)


def _scheduled_at(pod: Pod) -> datetime | None:
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "True")
    at = next((each.last_transition_time for each in scheduled), None)
    return at or pod.status.start_time or pod.metadata.creation_timestamp


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
