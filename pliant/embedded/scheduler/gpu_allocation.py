"""Allocation of real or simulated GPUs to nodes and pods."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.schemas.quantity import parse_quantity

GPU_RESOURCE = "nvidia.com/gpu"
_NO_VISIBLE_GPUS = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU; a simulated one has no uuid."""

    index: int
    uuid: str = ""
    pci_address: str = ""

    @property
    def device_id(self) -> str:
        """Return the id by which CUDA_VISIBLE_DEVICES selects this GPU."""
        return self.uuid or str(self.index)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.uuid})" if self.uuid else f"GPU {self.index}"


def assign_gpus_to_nodes(
    real_gpus: Sequence[Gpu], nodes: Sequence[str], per_node: int | None
) -> dict[str, tuple[Gpu, ...]]:
    """Return the GPUs of every node: `per_node` each, simulated if the machine has too few.

    None distributes all GPUs of the machine. Adjacent GPUs go to the same node.
    """
    if per_node is not None and per_node * len(nodes) > len(real_gpus):
        return {name: tuple(Gpu(index) for index in range(per_node)) for name in nodes}
    share, remainder = (per_node, 0) if per_node is not None else divmod(len(real_gpus), len(nodes))
    result, start = {}, 0
    for position, name in enumerate(nodes):
        end = start + share + (position < remainder)
        result[name], start = tuple(real_gpus[start:end]), end
    return result


def requested_gpus(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(parse_quantity(amounts.get(GPU_RESOURCE, 0)))


def pod_requested_gpus(pod_spec: Mapping[str, Any]) -> int:
    """Return the larger of the sum over containers, which run together, and the maximum of the init containers."""
    total = sum(requested_gpus(each) for each in pod_spec["containers"])
    return max(total, *(requested_gpus(each) for each in pod_spec.get("initContainers") or ()), 0)


class GpuAllocator:
    def __init__(self, gpus_by_node: Mapping[str, Sequence[Gpu]]) -> None:
        self.gpus_by_node = gpus_by_node
        self._allocated_by_pod: dict[str, tuple[str, tuple[Gpu, ...]]] = {}
        self._faults: dict[tuple[str, Gpu], str] = {}
        self._changed = asyncio.Condition()

    def healthy_gpus(self, node: str) -> list[Gpu]:
        return [each for each in self.gpus_by_node.get(node, ()) if (node, each) not in self._faults]

    def faults(self, node: str) -> dict[Gpu, str]:
        return {gpu: fault for (gpu_node, gpu), fault in self._faults.items() if gpu_node == node}

    async def set_faults(self, node: str, faults: Mapping[Gpu, str]) -> None:
        self._faults = {key: fault for key, fault in self._faults.items() if key[0] != node}
        self._faults |= {(node, gpu): fault for gpu, fault in faults.items()}
        async with self._changed:
            self._changed.notify_all()

    async def wait_and_allocate(self, pod_uid: str, node: str, count: int) -> None:
        """Wait until a node has `count` free GPUs, then allocate them to a pod."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: pod_uid in self._allocated_by_pod or len(self._free_gpus(node)) >= count
            )
            if pod_uid not in self._allocated_by_pod:
                self._allocated_by_pod[pod_uid] = node, tuple(self._free_gpus(node)[:count])

    async def release(self, pod_uid: str) -> None:
        async with self._changed:
            if self._allocated_by_pod.pop(pod_uid, None) is not None:
                self._changed.notify_all()

    def visible_devices_env(self, pod_uid: str, pod_spec: Mapping[str, Any], container: str) -> dict[str, str]:
        """Return the variables that restrict a container to its GPUs; empty on a node without GPUs."""
        if not self.gpus_by_node.get(pod_spec.get("nodeName") or ""):
            return {}
        _, gpus = self._allocated_by_pod.get(pod_uid, ("", ()))
        container_gpus = _container_gpus(pod_spec, container, gpus)
        visible = ",".join(each.device_id for each in container_gpus)
        return (
            {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible}
            if container_gpus
            else dict(_NO_VISIBLE_GPUS)
        )

    def device_statuses(self, pod_uid: str, pod_spec: Mapping[str, Any], container: str) -> list[dict[str, Any]]:
        """Return the `allocatedResourcesStatus` of a container: the health of each of its GPUs."""
        node, gpus = self._allocated_by_pod.get(pod_uid, ("", ()))
        devices = [
            {"resourceID": gpu.device_id, "health": "Unhealthy" if (node, gpu) in self._faults else "Healthy"}
            for gpu in _container_gpus(pod_spec, container, gpus)
        ]
        return [{"name": GPU_RESOURCE, "resources": devices}] if devices else []

    def _free_gpus(self, node: str) -> list[Gpu]:
        allocated = {gpu for gpu_node, gpus in self._allocated_by_pod.values() if gpu_node == node for gpu in gpus}
        return [each for each in self.healthy_gpus(node) if each not in allocated]


def _container_gpus(pod_spec: Mapping[str, Any], container: str, pod_gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    start = 0
    for each in pod_spec["containers"]:
        end = start + requested_gpus(each)
        if each["name"] == container:
            return pod_gpus[start:end]
        start = end
    init: Mapping[str, Any] = next(
        (each for each in pod_spec.get("initContainers") or () if each["name"] == container), {}
    )
    return pod_gpus[: requested_gpus(init)]
