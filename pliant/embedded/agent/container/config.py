"""The configuration of a container, which the kubelet sends to the node agent as JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Program(TypedDict):
    """A command line, its environment, and its working directory."""

    argv: list[str]
    env: dict[str, str]
    working_dir: str


class ResourceLimits(TypedDict):
    """The resource limits of a container."""

    memory_limit: NotRequired[int]
    """Bytes of memory of all processes together."""
    cpu_limit: NotRequired[float]
    cgroup: NotRequired[str]
    """The path of the cgroup that enforces the limits; the agent sets it."""


class Mount(TypedDict):
    """A mount at `target`: a path of the host (`source`), or a directory in the memory of the pod (`memory_name`)."""

    target: str
    source: NotRequired[str]
    memory_name: NotRequired[str]
    beneath: NotRequired[str]
    """The directory that contains the source: no part of the source below it may be a symbolic link."""
    readonly: bool
    pod_owned: bool
    """The source belongs to the pod: missing mount points may be created in it."""


class ContainerConfig(Program, ResourceLimits):
    """The program of a container, its limits, streams and mounts."""

    log_path: str
    max_log_bytes: NotRequired[int]
    """The size at which the log is rotated."""
    mounts: list[Mount]
    cpuset: NotRequired[list[int]]
    """The CPUs that the container may run on; all if empty."""
    stdin_path: NotRequired[str]
    """A named pipe for the input of the program or its terminal."""
    tty: NotRequired[bool]
    target_run: NotRequired[str]
    """The run of the pod whose processes the container sees: it shares its PID namespace."""
