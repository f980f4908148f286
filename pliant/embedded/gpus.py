"""The GPUs of this machine or pretended ones: which node offers which, and which pod has them now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pliant.kube.amounts import amount

GPU = "nvidia.com/gpu"
_NONE_VISIBLE = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
"""What hides the GPUs of a node from those who asked for none."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; only a real one has a uuid."""

    index: int
    uuid: str = ""
    bus: str = ""
    """Where it sits, as the kernel's log names it."""

    @property
    def handle(self) -> str:
        """How programs are told to use this one."""
        return self.uuid or str(self.index)

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.uuid})" if self.uuid else f"GPU {self.index}"


def shared_out(real: Sequence[Gpu], nodes: Sequence[str], each: int | None) -> dict[str, tuple[Gpu, ...]]:
    """The GPUs of every node: `each` of them, real ones where there are enough; None shares out what there is.

    Neighbours stay together.
    """
    if each is not None and each * len(nodes) > len(real):
        return {name: tuple(Gpu(index) for index in range(each)) for name in nodes}
    share, rest = (each, 0) if each is not None else divmod(len(real), len(nodes))
    result, begin = {}, 0
    for number, name in enumerate(nodes):
        end = begin + share + (number < rest)
        result[name], begin = tuple(real[begin:end]), end
    return result


def asked_for(container: Mapping[str, Any]) -> int:
    """How many GPUs a container wants."""
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(amount(asked.get(GPU, 0)))


def asked_for_by_pod(spec: Mapping[str, Any]) -> int:
    """How many GPUs a pod needs: its containers at once, or an init container that wants more."""
    together = sum(asked_for(each) for each in spec["containers"])
    return max(together, *(asked_for(each) for each in spec.get("initContainers") or ()), 0)


class GpuDesk:
    """Hands each GPU to one pod at a time, and never a bad one."""

    def __init__(self, of_nodes: Mapping[str, Sequence[Gpu]]) -> None:
        self.of_nodes = of_nodes
        self._held: dict[str, tuple[str, tuple[Gpu, ...]]] = {}
        """Node and GPUs of pods, by uid."""
        self._faults: dict[tuple[str, Gpu], str] = {}
        self._changed = asyncio.Condition()

    def sound(self, node: str) -> list[Gpu]:
        """The GPUs of a node that nothing is known to be wrong with."""
        return [each for each in self.of_nodes.get(node, ()) if (node, each) not in self._faults]

    def faults(self, node: str) -> dict[Gpu, str]:
        """What is wrong with GPUs of a node."""
        return {gpu: words for (where, gpu), words in self._faults.items() if where == node}

    async def note_faults(self, node: str, faults: Mapping[Gpu, str]) -> None:
        """Take in all that is wrong on a node now."""
        self._faults = {key: words for key, words in self._faults.items() if key[0] != node}
        self._faults |= {(node, gpu): words for gpu, words in faults.items()}
        async with self._changed:
            self._changed.notify_all()

    async def take(self, uid: str, node: str, count: int) -> None:
        """Give a pod so many GPUs of its node as soon as they are free."""
        async with self._changed:
            await self._changed.wait_for(lambda: uid in self._held or len(self._free(node)) >= count)
            if uid not in self._held:
                self._held[uid] = node, tuple(self._free(node)[:count])

    async def release(self, uid: str) -> None:
        """Nothing of a pod runs any more: others may have its GPUs."""
        async with self._changed:
            if self._held.pop(uid, None) is not None:
                self._changed.notify_all()

    def variables(self, uid: str, spec: Mapping[str, Any], container: str) -> dict[str, str]:
        """What tells a container which GPUs are its own; nothing where there are none to hide."""
        if not self.of_nodes.get(spec.get("nodeName") or ""):
            return {}
        _, gpus = self._held.get(uid, ("", ()))
        own = _share(spec, container, gpus)
        visible = ",".join(each.handle for each in own)
        return {"CUDA_VISIBLE_DEVICES": visible, "NVIDIA_VISIBLE_DEVICES": visible} if own else dict(_NONE_VISIBLE)

    def _free(self, node: str) -> list[Gpu]:
        taken = {gpu for where, gpus in self._held.values() if where == node for gpu in gpus}
        return [each for each in self.sound(node) if each not in taken]


def _share(spec: Mapping[str, Any], container: str, gpus: Sequence[Gpu]) -> Sequence[Gpu]:
    """Which of a pod's GPUs one container may use; containers that run at the same time have none in common."""
    begin = 0
    for each in spec["containers"]:
        end = begin + asked_for(each)
        if each["name"] == container:
            return gpus[begin:end]
        begin = end
    init: Mapping[str, Any] = next(
        (each for each in spec.get("initContainers") or () if each["name"] == container), {}
    )
    return gpus[: asked_for(init)]
