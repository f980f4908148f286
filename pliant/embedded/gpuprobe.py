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

from pliant.embedded.gpus import Gpu

PATIENCE: Final = 20.0
"""Seconds that nvidia-smi may take: it is slow where nobody keeps the driver loaded."""
_QUERY: Final = (
    "--query-gpu=index,uuid,pci.bus_id,ecc.errors.uncorrected.volatile.total",
    "--format=csv,noheader",
)
_DRIVER: Final = Path("/proc/driver/nvidia/gpus")
_KERNEL_LOG: Final = Path("/dev/kmsg")
_XID: Final = re.compile(rb"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+),? ?(.*)")
_OF_PROGRAMS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Errors that a program makes and that say nothing about the GPU."""


class SmiFailed(Exception):
    """nvidia-smi is there and does not work; the message is its own."""


async def found_gpus() -> list[Gpu]:
    """The GPUs of this machine; none where there is no driver, or one that does not answer."""
    if shutil.which("nvidia-smi") is None:
        return _of_driver(_DRIVER)
    try:
        return [gpu for gpu, _ in await _asked()]
    except SmiFailed:
        return []


class GpuProbe:
    """Looks after GPUs that were found once."""

    def __init__(self, gpus: Sequence[Gpu], kernel_log: Path = _KERNEL_LOG) -> None:
        self._gpus = gpus
        self._log: int | None = None
        self._heard = b""
        self._xids: dict[Gpu, str] = {}
        """What the kernel told; it never says that all is well again."""
        self._failures = 0
        with suppress(OSError):  # ordinary users often may not read it
            self._log = os.open(kernel_log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)

    def close(self) -> None:
        """Stop listening to the kernel."""
        if self._log is not None:
            os.close(self._log)
            self._log = None

    async def faults(self) -> dict[Gpu, str]:
        """All GPUs that are known to be bad, and why."""
        self._listen()
        return {**await self._told_by_smi(), **self._xids}

    async def _told_by_smi(self) -> dict[Gpu, str]:
        if shutil.which("nvidia-smi") is None:
            return {}
        try:
            told = dict(await _asked())
        except SmiFailed as problem:
            self._failures += 1
            # Once may be an accident: it is slow and easily disturbed.
            return dict.fromkeys(self._gpus, f"nvidia-smi fails: {problem}") if self._failures > 1 else {}
        self._failures = 0
        return dict(_bad(self._gpus, {gpu.uuid: errors for gpu, errors in told.items()}))

    def _listen(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):  # nothing new; or the kernel was faster than we
            while self._log is not None and (heard := os.read(self._log, 1 << 16)):
                *lines, self._heard = (self._heard + heard).split(b"\n")
                for line in lines:
                    self._note(line)

    def _note(self, line: bytes) -> None:
        match = _XID.search(line)
        if match is None or int(match[2]) in _OF_PROGRAMS:
            return
        bus, words = _bus(match[1].decode()), match[3].decode(errors="replace").strip()
        for gpu in self._gpus:
            if gpu.bus == bus:
                self._xids[gpu] = f"Xid {int(match[2])}: {words}"


def _bad(gpus: Iterable[Gpu], errors: Mapping[str, int]) -> Iterable[tuple[Gpu, str]]:
    for gpu in gpus:
        if gpu.uuid not in errors:
            yield gpu, "lost: nvidia-smi no longer lists it"
        elif errors[gpu.uuid]:
            yield gpu, f"{errors[gpu.uuid]} uncorrected ECC errors"


async def _asked() -> list[tuple[Gpu, int]]:
    """What nvidia-smi lists: each GPU and its uncorrected memory errors."""
    return await asyncio.to_thread(_ask)


def _ask() -> list[tuple[Gpu, int]]:
    try:
        answer = subprocess.run(
            ["nvidia-smi", *_QUERY],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SmiFailed(f"no answer within {PATIENCE:.0f}s") from None
    except OSError as problem:
        raise SmiFailed(problem.strerror or str(problem)) from None
    lines = answer.stdout.decode(errors="replace").splitlines()
    found = [known for line in lines if (known := _read(line)) is not None]
    if answer.returncode and not found:
        raise SmiFailed(next(filter(None, lines), f"exit code {answer.returncode}"))
    return found


def _read(line: str) -> tuple[Gpu, int] | None:
    """One line of nvidia-smi; None for words that describe no GPU."""
    parts = [part.strip() for part in line.split(",")]
    if len(parts) != 4 or not parts[0].isdigit():
        return None
    index, uuid, bus, errors = parts
    return Gpu(int(index), uuid, _bus(bus)), int(errors) if errors.isdigit() else 0


def _bus(text: str) -> str:
    """`00000000:3B:00.0` and `0000:3b:00` are one place."""
    domain, bus, device = text.lower().split(".")[0].split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


def _of_driver(folder: Path) -> list[Gpu]:
    """The GPUs that the driver tells of in its own files."""
    found = []
    for index, place in enumerate(sorted(folder.glob("*/information"))):
        with suppress(OSError):
            match = re.search(r"GPU UUID:\s*(\S+)", place.read_text())
            if match is not None:
                found.append(Gpu(index, match[1], _bus(place.parent.name)))
    return found
