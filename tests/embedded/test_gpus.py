"""Each GPU belongs to one pod at a time, and a bad one to nobody."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.controllers.gpu_health import GpuHealthController, GpuProbe, discover_gpus
from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION
from pliant.embedded.scheduler.gpu_allocation import (
    GPU_RESOURCE,
    Gpu,
    GpuAllocator,
    assign_gpus_to_nodes,
    pod_requested_gpus,
)
from pliant.kube.cache.informer import Informer
from pliant.kube.objects import Node
from pliant.kube.resources import NODES
from tests.embedded.nvidia_smi import FakeSmi
from tests.embedded.placing import placing
from tests.virtual_time import VirtualClock, on_virtual_time, quiet

REAL = [Gpu(0, "GPU-0-uuid", "0000:01:00"), Gpu(1, "GPU-1-uuid", "0000:02:00")]


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    """A machine with two GPUs."""
    fake = FakeSmi(tmp_path)
    fake.lists(0, 1)
    monkeypatch.setenv("PATH", fake.path)
    return fake


def spec(*containers: int, init: tuple[int, ...] = (), node: str = "n") -> dict[str, Any]:
    """A pod on a node whose containers, c0 and so on, want so many GPUs."""

    def containers_with_gpus(prefix: str, wants: tuple[int, ...]) -> list[dict[str, Any]]:
        return [
            {"name": f"{prefix}{number}", "resources": {"limits": {GPU_RESOURCE: str(count)}}}
            for number, count in enumerate(wants)
        ]

    return {
        "nodeName": node,
        "containers": containers_with_gpus("c", containers),
        "initContainers": containers_with_gpus("i", init),
    }


async def test_the_gpus_of_the_machine_are_found(smi: FakeSmi) -> None:
    assert await discover_gpus() == REAL
    smi.fails()
    assert await discover_gpus() == []


def test_nodes_share_what_there_is_and_pretend_what_is_not() -> None:
    three = [*REAL, Gpu(2, "GPU-2-uuid")]
    assert assign_gpus_to_nodes(three, ["a", "b"], None) == {"a": tuple(REAL), "b": (three[2],)}
    assert assign_gpus_to_nodes(three, ["a", "b"], 1) == {"a": (REAL[0],), "b": (REAL[1],)}
    assert assign_gpus_to_nodes(three, ["a", "b"], 2) == {"a": (Gpu(0), Gpu(1)), "b": (Gpu(0), Gpu(1))}
    assert assign_gpus_to_nodes(three, ["a"], 0) == {"a": ()}
    assert assign_gpus_to_nodes([], ["a"], None) == {"a": ()}


async def test_no_two_pods_ever_share_one() -> None:
    desk = GpuAllocator({"n": REAL})
    await desk.wait_and_allocate("first", "n", 1)
    await desk.wait_and_allocate("second", "n", 1)
    third = asyncio.create_task(desk.wait_and_allocate("third", "n", 1))
    await asyncio.sleep(0)
    assert not third.done()
    seen = [desk.visible_devices_env(pod, spec(1), "c0")["CUDA_VISIBLE_DEVICES"] for pod in ("first", "second")]
    assert seen == ["GPU-0-uuid", "GPU-1-uuid"]
    await desk.release("second")
    await third
    assert desk.visible_devices_env("third", spec(1), "c0")["NVIDIA_VISIBLE_DEVICES"] == "GPU-1-uuid"


async def test_containers_of_one_pod_have_their_own_and_init_containers_use_them_before() -> None:
    desk = GpuAllocator({"n": [Gpu(index) for index in range(4)]})
    pod = spec(1, 2, 0, init=(3,))
    assert pod_requested_gpus(pod) == 3
    await desk.wait_and_allocate("p", "n", 3)
    visible = {
        name: desk.visible_devices_env("p", pod, name)["CUDA_VISIBLE_DEVICES"] for name in ("c0", "c1", "c2", "i0")
    }
    assert visible == {"c0": "0", "c1": "1,2", "c2": "", "i0": "0,1,2"}


async def test_who_asked_for_none_sees_none_where_there_are_some() -> None:
    desk = GpuAllocator({"n": REAL, "plain": ()})
    hidden = {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert desk.visible_devices_env("p", spec(0), "c0") == hidden
    assert desk.visible_devices_env("p", spec(0, node="plain"), "c0") == {}


async def test_a_bad_one_is_not_handed_out_until_it_is_well() -> None:
    desk = GpuAllocator({"n": REAL})
    await desk.set_faults("n", {REAL[0]: "lost"})
    await desk.wait_and_allocate("first", "n", 1)
    assert desk.visible_devices_env("first", spec(1), "c0")["CUDA_VISIBLE_DEVICES"] == "GPU-1-uuid"
    second = asyncio.create_task(desk.wait_and_allocate("second", "n", 1))
    await asyncio.sleep(0)
    assert not second.done()
    await desk.set_faults("n", {})
    await second


async def test_a_pod_is_told_which_of_its_gpus_is_bad() -> None:
    desk = GpuAllocator({"n": REAL})
    pod = spec(1, 1, 0)
    await desk.wait_and_allocate("p", "n", 2)
    await desk.set_faults("n", {REAL[1]: "lost"})
    health = {name: desk.device_statuses("p", pod, name) for name in ("c0", "c1", "c2")}
    assert health == {
        "c0": [{"name": GPU_RESOURCE, "resources": [{"resourceID": "GPU-0-uuid", "health": "Healthy"}]}],
        "c1": [{"name": GPU_RESOURCE, "resources": [{"resourceID": "GPU-1-uuid", "health": "Unhealthy"}]}],
        "c2": [],
    }


async def test_what_nvidia_smi_and_the_kernel_say_is_understood(smi: FakeSmi, tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:01:00): 79, said before we listened\n")
    probe = GpuProbe(REAL, log)
    assert await probe.find_faults() == {}
    smi.lists(0, 1, errors=[1])
    assert await probe.find_faults() == {REAL[1]: "7 uncorrected ECC errors"}
    smi.lists(1)
    assert await probe.find_faults() == {REAL[0]: "lost: nvidia-smi no longer lists it"}
    smi.fails()
    assert await probe.find_faults() == {}
    assert set(await probe.find_faults()) == set(REAL)
    smi.lists(0, 1)
    with log.open("a") as kernel:
        kernel.write("4,2,2,-;NVRM: Xid (PCI:0000:01:00): 31, pid=7, a program's own fault\n")
        kernel.write("4,3,3,-;NVRM: Xid (PCI:0000:02:00): 79, pid=7, GPU has fallen off the bus.\n")
    assert await probe.find_faults() == {REAL[1]: "Xid 79: pid=7, GPU has fallen off the bus."}
    probe.close()


@on_virtual_time
async def test_a_node_tells_of_a_bad_gpu_and_offers_one_less() -> None:
    async with placing() as places:
        await places.node("n", gpus=2)
        desk = GpuAllocator({"n": (Gpu(0), Gpu(1))})
        health = GpuHealthController(places.client, VirtualClock(), desk)
        nodes = Informer(places.client, NODES, Node, on_change=health.on_node_change)
        tasks = [asyncio.create_task(each.run()) for each in (health, nodes)]

        async def status_with_fault(words: str | None) -> tuple[str, str, str]:
            await places.client.patch(NODES, None, "n", {"metadata": {"annotations": {GPU_FAULT_ANNOTATION: words}}})
            await quiet()
            status = (await places.client.get(NODES, None, "n"))["status"]
            (condition,) = (each for each in status["conditions"] if each["type"] == "GPUUnhealthy")
            return condition["status"], condition.get("message", ""), status["allocatable"][GPU_RESOURCE]

        assert await status_with_fault("Xid 79") == ("True", "GPU 0: Xid 79", "1")
        assert await places.pod("one", gpus=1) == "n"
        assert not await places.pod("two", gpus=1)
        assert await places.unschedulable_message("two") == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
        assert await status_with_fault(None) == ("False", "", "2")
        assert await places.of("two") == "n"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
