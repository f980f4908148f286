"""What is asked of the node agent, and what it tells of the end: plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import msgspec


class Mount(TypedDict):
    """Something a container sees at `target`: a host path as `source`, or pod memory by the name `memory`."""

    target: str
    source: NotRequired[str]
    memory: NotRequired[str]
    readonly: bool
    private: bool


class ContainerConfig(TypedDict):
    """What to run in a pod."""

    argv: list[str]
    env: dict[str, str]
    folder: str
    log: str
    log_size: NotRequired[int]
    """Bytes after which a new file is begun."""
    mounts: list[Mount]
    memory: NotRequired[int]
    """Bytes that all its processes may hold together."""
    cpu: NotRequired[float]
    """Seconds of CPU in a second that they may use."""
    cpus: NotRequired[list[int]]
    """Those that it may run on, when not all."""
    input: NotRequired[str]
    """A named pipe from which it reads, or its terminal does."""
    terminal: NotRequired[bool]


class ContainerExit(msgspec.Struct, frozen=True):
    """How a container ended."""

    code: int
    signal: int = 0
    is_oom_killed: bool = False
    """It was killed because it held more memory than it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecStreams:
    """Open descriptors for a session's input, output and errors; they stay the caller's to close."""

    stdin: int
    stdout: int
    stderr: int
    is_terminal: bool = False
    """They are the inner end of a pseudo-terminal, which is to control the command."""
