"""The GPUs of this machine or pretended ones: which node offers which, and which pod has them now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.kube.quantity import parse_quantity

GPU_RESOURCE = "nvidia.com/gpu"
_NO_VISIBLE_GPUS = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
"""What hides the GPUs of a node from those who asked for none."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; only a real one has a uuid."""

    index: int
    uuid: str = ""
    pci_address: str = ""
    """Where it sits, as the kernel's log names it."""

    @property
    def device_id(self) -> str:
        """How programs are told to use this one."""
        return self.uuid or str(self.index)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.uuid})" if self.uuid else f"GPU {self.index}"


def assign_gpus_to_nodes(
    real_gpus: Sequence[Gpu], nodes: Sequence[str], per_node: int | None
) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs of every node: `each` of them, real ones where there are enough; None shares out what there is.

    Neighbours stay together.
    """
    if per_node is not None and per_node * len(nodes) > len(real_gpus):
        return {name: tuple(Gpu(index) for index in range(per_node)) for name in nodes}
    share, rest = (per_node, 0) if per_node is not None else divmod(len(real_gpus), len(nodes))
    result, begin = {}, 0
    for number, name in enumerate(nodes):
        end = begin + share + (number < rest)
        result[name], begin = tuple(real_gpus[begin:end]), end
    return result


def requested_gpus(container: Mapping[str, Any]) -> int:
    """How many GPUs a container wants."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(parse_quantity(asked.get(GPU_RESOURCE, 0)))


def pod_requested_gpus(pod_spec: Mapping[str, Any]) -> int:
    """How many GPUs a pod needs: its containers at once, or an init container that wants more."""
    together = sum(requested_gpus(each) for each in pod_spec["containers"])
    return max(together, *(requested_gpus(each) for each in pod_spec.get("initContainers") or ()), 0)


class GpuAllocator:
    """Hands each GPU to one pod at a time, and never a bad one."""

    def __init__(self, gpus_by_node: Mapping[str, Sequence[Gpu]]) -> None:
        self.gpus_by_node = gpus_by_node
        self._allocated: dict[str, tuple[str, tuple[Gpu, ...]]] = {}
        """Node and GPUs of pods, by uid."""
        self._faults: dict[tuple[str, Gpu], str] = {}
        self._changed = asyncio.Condition()

    def healthy_gpus(self, node: str) -> list[Gpu]:
        """The GPUs of a node that nothing is known to be wrong with."""
        return [each for each in self.gpus_by_node.get(node, ()) if (node, each) not in self._faults]

    def faults(self, node: str) -> dict[Gpu, str]:
        """What is wrong with GPUs of a node."""
        return {gpu: words for (where, gpu), words in self._faults.items() if where == node}

    async def set_faults(self, node: str, faults: Mapping[Gpu, str]) -> None:
        """Take in all that is wrong on a node now."""
        self._faults = {key: words for key, words in self._faults.items() if key[0] != node}
        self._faults |= {(node, gpu): words for gpu, words in faults.items()}
        async with self._changed:
            self._changed.notify_all()

    async def allocate(self, pod_uid: str, node: str, count: int) -> None:
        """Give a pod so many GPUs of its node as soon as they are free."""
        async with self._changed:
            await self._changed.wait_for(lambda: pod_uid in self._allocated or len(self._free_gpus(node)) >= count)
            if pod_uid not in self._allocated:
                self._allocated[pod_uid] = node, tuple(self._free_gpus(node)[:count])

    async def release(self, pod_uid: str) -> None:
        """Nothing of a pod runs any more: others may have its GPUs."""
        async with self._changed:
            if self._allocated.pop(pod_uid, None) is not None:
                self._changed.notify_all()

    def visible_devices_env(self, pod_uid: str, pod_spec: Mapping[str, Any], container: str) -> dict[str, str]:
        """What tells a container which GPUs are its own; nothing where there are none to hide."""
        if not self.gpus_by_node.get(pod_spec.get("nodeName") or ""):
            return {}
        _, gpus = self._allocated.get(pod_uid, ("", ()))
        own = _container_gpus(pod_spec, container, gpus)
        visible = ",".join(each.device_id for each in own)
        return {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible} if own else dict(_NO_VISIBLE_GPUS)

    def _free_gpus(self, node: str) -> list[Gpu]:
        taken = {gpu for where, gpus in self._allocated.values() if where == node for gpu in gpus}
        return [each for each in self.healthy_gpus(node) if each not in taken]


def _container_gpus(pod_spec: Mapping[str, Any], container: str, pod_gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """Which of a pod's GPUs one container may use; containers that run at the same time have none in common."""
    begin = 0
    for each in pod_spec["containers"]:
        end = begin + requested_gpus(each)
        if each["name"] == container:
            return pod_gpus[begin:end]
        begin = end
    init: Mapping[str, Any] = next(
        (each for each in pod_spec.get("initContainers") or () if each["name"] == container), {}
    )
    return pod_gpus[: requested_gpus(init)]
