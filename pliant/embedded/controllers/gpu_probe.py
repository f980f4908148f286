"""Asks the machine which GPUs it has and how they are: nvidia-smi, the driver's files, the kernel's log."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pliant.embedded.scheduler.gpu_allocation import Gpu

NVIDIA_SMI_TIMEOUT: Final = 20.0
"""Seconds that nvidia-smi may take: it is slow where nobody keeps the driver loaded."""
_SMI_QUERY_ARGUMENTS: Final = (
    "--query-gpu=index,uuid,pci.bus_id,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader",
)
_DRIVER_GPUS_DIR: Final = Path("/proc/driver/nvidia/gpus")
_KERNEL_LOG: Final = Path("/dev/kmsg")
_XID_PATTERN: Final = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
_APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors that a program makes and that say nothing about the GPU."""


class NvidiaSmiError(Exception):
    """nvidia-smi is there and does not work; the message is its own."""


async def discover_gpus() -> list[Gpu]:
    """The GPUs of this machine; none where there is no driver, or one that does not answer."""
    if shutil.which("nvidia-smi") is None:
        return _gpus_from_driver_files(_DRIVER_GPUS_DIR)
    try:
        return [gpu for gpu, _ in await _query_nvidia_smi()]
    except NvidiaSmiError:
        return []


class GpuProbe:
    """Looks after GPUs that were found once."""

    def __init__(self, gpus: Sequence[Gpu], kernel_log: Path = _KERNEL_LOG) -> None:
        self._gpus = gpus
        self._kernel_log_fd: int | None = None
        self._partial_line = b""
        self._xids: dict[Gpu, str] = {}
        """What the kernel told; it never says that all is well again."""
        self._smi_failures = 0
        with suppress(OSError):  # ordinary users often may not read it
            self._kernel_log_fd = os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._kernel_log_fd, 0, os.SEEK_END)

    def close(self) -> None:
        """Stop listening to the kernel."""
        if self._kernel_log_fd is not None:
            os.close(self._kernel_log_fd)
            self._kernel_log_fd = None

    async def find_faults(self) -> dict[Gpu, str]:
        """All GPUs that are known to be bad, and why."""
        self._read_kernel_log()
        return {**await self._find_smi_faults(), **self._xids}

    async def _find_smi_faults(self) -> dict[Gpu, str]:
        if shutil.which("nvidia-smi") is None:
            return {}
        try:
            told = dict(await _query_nvidia_smi())
        except NvidiaSmiError as problem:
            self._smi_failures += 1
            # Once may be an accident: it is slow and easily disturbed.
            return dict.fromkeys(self._gpus, f"nvidia-smi fails: {problem}") if self._smi_failures > 1 else {}
        self._smi_failures = 0
        return dict(_faults_from_smi(self._gpus, {gpu.uuid: errors for gpu, errors in told.items()}))

    def _read_kernel_log(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):  # nothing new; or the kernel was faster than we
            while self._kernel_log_fd is not None and (heard := os.read(self._kernel_log_fd, 1 << 16)):
                *lines, self._partial_line = (self._partial_line + heard).split(b"\n")
                for line in lines:
                    self._record_xid(line)

    def _record_xid(self, line: bytes) -> None:
        match = _XID_PATTERN.search(line)
        if match is None or int(match[2]) in _APPLICATION_XIDS:
            return
        bus, words = _normalize_pci_address(match[1].decode()), match[3].decode(errors="replace").strip()
        for gpu in self._gpus:
            if gpu.pci_address == bus:
                self._xids[gpu] = f"Xid {int(match[2])}: {words}"


def _faults_from_smi(gpus: Iterable[Gpu], ecc_errors: Mapping[str, int]) -> Iterable[tuple[Gpu, str]]:
    for gpu in gpus:
        if gpu.uuid not in ecc_errors:
            yield gpu, "lost: nvidia-smi no longer lists it"
        elif ecc_errors[gpu.uuid]:
            yield gpu, f"{ecc_errors[gpu.uuid]} uncorrected ECC errors"


async def _query_nvidia_smi() -> list[tuple[Gpu, int]]:
    """What nvidia-smi lists: each GPU and its uncorrected memory errors."""
    return await asyncio.to_thread(_run_nvidia_smi)


def _run_nvidia_smi() -> list[tuple[Gpu, int]]:
    try:
        answer = subprocess.run(
            ["nvidia-smi", *_SMI_QUERY_ARGUMENTS],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=NVIDIA_SMI_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NvidiaSmiError(f"no answer within {NVIDIA_SMI_TIMEOUT:.0f}s") from None
    except OSError as problem:
        raise NvidiaSmiError(problem.strerror or str(problem)) from None
    lines = answer.stdout.decode(errors="replace").splitlines()
    found = [known for line in lines if (known := _parse_smi_line(line)) is not None]
    if answer.returncode and not found:
        raise NvidiaSmiError(next(filter(None, lines), f"exit code {answer.returncode}"))
    return found


def _parse_smi_line(line: str) -> tuple[Gpu, int] | None:
    """One line of nvidia-smi; None for words that describe no GPU."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 4 or not parts[0].isdigit():
        return None
    index, uuid, bus, errors = parts
    return Gpu(int(index), uuid, _normalize_pci_address(bus)), int(errors) if errors.isdigit() else 0


def _normalize_pci_address(text: str) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` are one place."""
    domain, bus, device = text.lower().split(".")[0].split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


def _gpus_from_driver_files(driver_dir: Path) -> list[Gpu]:
    """The GPUs that the driver tells of in its own files."""
    found = []
    for index, place in enumerate(sorted(driver_dir.glob("*/information"))):
        with suppress(OSError):
            match = re.search(r"GPU UUID:\s*(\S+)", place.read_text())
            if match is not None:
                found.append(Gpu(index, match[1], _normalize_pci_address(place.parent.name)))
    return found
