"""The data that the kubelet exchanges with the node agent, and the errors of its requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired, TypedDict

import msgspec

from pliant.errors import PliantError


class AgentRequestFailed(PliantError):
    """The node agent could not fulfil a request; the message says why."""


class AgentLost(AgentRequestFailed):
    """The node agent has exited, and all pods with it."""


class Mount(TypedDict):
    """A mount at `target`: a path of the host (`source`), or a directory in the memory of the pod (`memory_name`)."""

    target: str
    source: NotRequired[str]
    memory_name: NotRequired[str]
    readonly: bool
    pod_owned: bool


class ContainerConfig(TypedDict):
    """The program of a container, its limits, streams and mounts."""

    argv: list[str]
    env: dict[str, str]
    working_dir: str
    log_path: str
    max_log_bytes: NotRequired[int]
    """The size at which the log is rotated."""
    mounts: list[Mount]
    memory_limit: NotRequired[int]
    cpu_limit: NotRequired[float]
    cpuset: NotRequired[list[int]]
    """The CPUs that the container may run on; all if empty."""
    stdin_path: NotRequired[str]
    """A named pipe for the input of the program or its terminal."""
    tty: NotRequired[bool]


class ContainerExit(msgspec.Struct, frozen=True):
    """The exit status of a container or session."""

    code: int
    signal: int = 0
    is_oom_killed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecStreams:
    """Open descriptors for the standard streams of a session; the caller closes them."""

    stdin: int
    stdout: int
    stderr: int
    is_terminal: bool = False
    """All three are the inner end of a pseudo-terminal, which becomes the controlling terminal of the command."""
