"""Discovers GPUs and their faults, and sets the GPUUnhealthy condition of nodes with faulty GPUs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from pliant.embedded.fault_annotations import GPU_FAULT_ANNOTATION
from pliant.embedded.retries import NON_RETRYABLE_API_ERRORS, retry_until_answered
from pliant.embedded.scheduler.gpu_allocation import GPU_RESOURCE, Gpu, GpuAllocator
from pliant.kube.client import KubeClient
from pliant.kube.objects import Node
from pliant.kube.resources import NODES
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.runtime.clock import Clock

GPU_UNHEALTHY_CONDITION: Final = "GPUUnhealthy"
_GPU_FAULT_REASON: Final = "GPUFault"
_PROBE_INTERVAL_SECONDS: Final = 15.0
NVIDIA_SMI_TIMEOUT_SECONDS: Final = 20.0
"""In seconds. nvidia-smi is slow where no process keeps the driver loaded."""
_SMI_QUERY_ARGUMENTS: Final = (
    "--query-gpu=index,uuid,pci.bus_id,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader",
)
_DRIVER_GPUS_DIR: Final = Path("/proc/driver/nvidia/gpus")
_KERNEL_LOG: Final = Path("/dev/kmsg")
_XID_PATTERN: Final = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
_APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that programs cause; they do not mean that the GPU is faulty."""

log = logging.getLogger(__name__)


class NvidiaSmiError(Exception):
    """nvidia-smi is installed but fails; the message is its own."""


async def discover_gpus() -> list[Gpu]:
    """Return the GPUs of this machine; none without a driver that responds."""
    if shutil.which("nvidia-smi") is None:
        return _gpus_from_driver_files(_DRIVER_GPUS_DIR)
    try:
        return [gpu for gpu, _ in await asyncio.to_thread(_query_nvidia_smi)]
    except NvidiaSmiError:
        return []


class GpuProbe:
    def __init__(self, gpus: Sequence[Gpu], kernel_log: Path = _KERNEL_LOG) -> None:
        self._gpus = gpus
        self._kernel_log_fd: int | None = None
        self._partial_line = b""
        self._xids: dict[Gpu, str] = {}
        """Errors from the kernel log. They stay: the kernel does not log recoveries."""
        self._smi_failures = 0
        with suppress(OSError):  # unprivileged users often cannot read it
            self._kernel_log_fd = os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._kernel_log_fd, 0, os.SEEK_END)

    def close(self) -> None:
        if self._kernel_log_fd is not None:
            os.close(self._kernel_log_fd)
            self._kernel_log_fd = None

    async def find_faults(self) -> dict[Gpu, str]:
        self._read_kernel_log()
        return {**await self._find_smi_faults(), **self._xids}

    async def _find_smi_faults(self) -> dict[Gpu, str]:
        if shutil.which("nvidia-smi") is None:
            return {}
        try:
            ecc_errors = dict(await asyncio.to_thread(_query_nvidia_smi))
        except NvidiaSmiError as error:
            self._smi_failures += 1
            # A single failure may be transient.
            return dict.fromkeys(self._gpus, f"nvidia-smi failed: {error}") if self._smi_failures > 1 else {}
        self._smi_failures = 0
        return dict(_faults_from_smi(self._gpus, {gpu.uuid: count for gpu, count in ecc_errors.items()}))

    def _read_kernel_log(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):  # no new lines, or the kernel has overwritten unread ones
            while self._kernel_log_fd is not None and (data := os.read(self._kernel_log_fd, 1 << 16)):
                *lines, self._partial_line = (self._partial_line + data).split(b"\n")
                for line in lines:
                    self._record_xid(line)

    def _record_xid(self, line: bytes) -> None:
        match = _XID_PATTERN.search(line)
        if match is None or int(match[2]) in _APPLICATION_XIDS:
            return
        pci_address, text = _normalize_pci_address(match[1].decode()), match[3].decode(errors="replace").strip()
        for gpu in self._gpus:
            if gpu.pci_address == pci_address:
                self._xids[gpu] = f"Xid {int(match[2])}: {text}"


def _faults_from_smi(gpus: Iterable[Gpu], ecc_errors: Mapping[str, int]) -> Iterable[tuple[Gpu, str]]:
    for gpu in gpus:
        if gpu.uuid not in ecc_errors:
            yield gpu, "lost: nvidia-smi no longer lists it"
        elif ecc_errors[gpu.uuid]:
            yield gpu, f"{ecc_errors[gpu.uuid]} uncorrected ECC errors"


def _query_nvidia_smi() -> list[tuple[Gpu, int]]:
    """Return each GPU that nvidia-smi lists, with its number of uncorrected memory errors."""
    try:
        result = subprocess.run(
            ["nvidia-smi", *_SMI_QUERY_ARGUMENTS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=NVIDIA_SMI_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NvidiaSmiError(f"no response within {NVIDIA_SMI_TIMEOUT_SECONDS:.0f}s") from None
    except OSError as error:
        raise NvidiaSmiError(error.strerror or str(error)) from None
    lines = result.stdout.decode(errors="replace").splitlines()
    found = [parsed for line in lines if (parsed := _parse_smi_line(line)) is not None]
    if result.returncode and not found:
        raise NvidiaSmiError(next(filter(None, lines), f"exit code {result.returncode}"))
    return found


def _parse_smi_line(line: str) -> tuple[Gpu, int] | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 4 or not parts[0].isdigit():
        return None
    index, uuid, bus, errors = parts
    return Gpu(int(index), uuid, _normalize_pci_address(bus)), int(errors) if errors.isdigit() else 0


def _normalize_pci_address(text: str) -> str:
    """Return `0000:3b:00` for `00000000:3B:00.0` and for `0000:3b:00`."""
    domain, bus, device = text.lower().split(".")[0].split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


def _gpus_from_driver_files(driver_dir: Path) -> list[Gpu]:
    found = []
    for index, info_file in enumerate(sorted(driver_dir.glob("*/information"))):
        with suppress(OSError):
            match = re.search(r"GPU UUID:\s*(\S+)", info_file.read_text())
            if match is not None:
                found.append(Gpu(index, match[1], _normalize_pci_address(info_file.parent.name)))
    return found


class GpuHealthController:
    """Reports faults that the probe finds and faults that users simulate with an annotation."""

    def __init__(
        self, client: KubeClient, clock: Clock, allocator: GpuAllocator, probe_interval: float = _PROBE_INTERVAL_SECONDS
    ) -> None:
        self._client = client
        self._clock = clock
        self._allocator = allocator
        self._probe_interval = probe_interval
        self._probed_faults: Mapping[Gpu, str] = {}
        self._nodes: dict[str, Node] = {}
        self._woken = asyncio.Event()
        self.on_faults_changed: Callable[[str], None] = lambda _: None
        """Called with the name of a node whose GPU faults changed."""

    async def run(self) -> None:
        """Probe real GPUs periodically, and apply annotations of nodes when they change."""
        real = [gpu for gpus in self._allocator.gpus_by_node.values() for gpu in gpus if gpu.uuid]
        probe = GpuProbe(real)
        try:
            while True:
                if real:
                    self._probed_faults = await probe.find_faults()
                for name in self._allocator.gpus_by_node:
                    await self._sync_node(name)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._probe_interval if real else None):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            probe.close()

    def on_node_change(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        if known is None or not self._allocator.gpus_by_node.get(known.metadata.name):
            return
        if new is None:
            self._nodes.pop(known.metadata.name, None)
        else:
            self._nodes[known.metadata.name] = new
            self._woken.set()

    async def _sync_node(self, node_name: str) -> None:
        node = self._nodes.get(node_name)
        if node is None:
            return
        gpus = self._allocator.gpus_by_node[node_name]
        faults = {gpu: self._probed_faults[gpu] for gpu in gpus if gpu in self._probed_faults}
        if fault := node.metadata.annotations.get(GPU_FAULT_ANNOTATION):
            faults[gpus[0]] = fault
        if faults != self._allocator.faults(node_name):
            await self._allocator.set_faults(node_name, faults)
            self.on_faults_changed(node_name)
            log.warning("GPU faults changed", extra={"node": node_name, "faults": _format_faults(faults) or "none"})
        if self._needs_status_update(node, faults):
            await self._patch_node_status(node_name, faults)

    def _needs_status_update(self, node: Node, faults: Mapping[Gpu, str]) -> bool:
        condition = next((each for each in node.status.conditions if each.type == GPU_UNHEALTHY_CONDITION), None)
        allocatable = node.status.allocatable.get(GPU_RESOURCE)
        if allocatable is not None and allocatable != str(len(self._allocator.healthy_gpus(node.metadata.name))):
            return True
        if condition is None or condition.reason != _GPU_FAULT_REASON:
            return bool(faults)  # a condition that another component set stays
        return (condition.status == "True", condition.message) != (bool(faults), _format_faults(faults))

    async def _patch_node_status(self, node_name: str, faults: Mapping[Gpu, str]) -> None:
        now = format_timestamp(self._clock.now())
        condition = {
            "type": GPU_UNHEALTHY_CONDITION,
            "status": "True" if faults else "False",
            "reason": _GPU_FAULT_REASON,
            "message": _format_faults(faults),
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        status = {
            "allocatable": {GPU_RESOURCE: str(len(self._allocator.healthy_gpus(node_name)))},
            "conditions": [condition],
        }
        write = partial(self._client.patch, NODES, None, node_name, {"status": status})
        try:
            await retry_until_answered(partial(write, content_type=STRATEGIC_MERGE_PATCH, subresource="status"))
        except NON_RETRYABLE_API_ERRORS as error:
            log.info("node status not written", extra={"node": node_name, "error": str(error)})


def _format_faults(faults: Mapping[Gpu, str]) -> str:
    return "; ".join(f"{gpu}: {fault}" for gpu, fault in sorted(faults.items(), key=lambda item: item[0].index))
