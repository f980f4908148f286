"""The interface through which the API server opens exec, attach and portforward sessions on a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pliant.embedded.apiserver.http.errors import bad_request
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.apiserver.streaming.logs import resolve_container
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.errors import PliantError, ServerError

STDIN, STDOUT, STDERR = 0, 1, 2


class SessionStartError(PliantError):
    """The command of a session cannot be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options of exec and attach; attach has no command."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class ContainerSession(Protocol):
    """The streams of an executed command or an attached container."""

    async def read(self, stream: int) -> bytes:
        """Return the next output of STDOUT or STDERR, or b"" at its end."""

    async def write(self, data: bytes) -> None:
        """Write to stdin; ignore a closed stdin."""

    def close_input(self) -> None: ...

    async def resize_terminal(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, if the session has one."""

    async def wait_exit(self) -> int:
        """Wait for the process to exit, and return its exit code as a shell does."""


class SessionSource(Protocol):
    def open_session(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AbstractAsyncContextManager[ContainerSession]:
        """Open a session, whose process ends with the context; raise `SessionStartError` if it cannot start."""

    async def connect_to_port(self, pod: dict[str, Any], port: int) -> PortConnection:
        """Connect to a port on the loopback interface of a pod; raise `OSError` if no process listens on it."""


PortConnection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
PortConnector = Callable[[int], Awaitable[PortConnection]]
"""Connects to a port of a pod, or raises `OSError`."""
PreparedSession = tuple[AbstractAsyncContextManager[ContainerSession], SessionOptions]


def prepare_session(
    index: ObjectIndex, info: RequestInfo, command: Sequence[str], session_source: SessionSource | None
) -> PreparedSession:
    """Prepare an exec or attach session; raise `ApiError` when the container does not run."""
    pod, session_source = info.require_stored_object(index).decode(), _require_session_source(session_source)
    is_exec = info.subresource == "exec"
    options = SessionOptions(
        command=tuple(command) if is_exec else (),
        stdin=info.query_bool("stdin"),
        stdout=info.query_bool("stdout"),
        stderr=info.query_bool("stderr") and not info.query_bool("tty"),
        tty=info.query_bool("tty"),
    )
    if is_exec and not any(command):
        raise bad_request("you must specify at least one command for the container")
    if not (options.stdin or options.stdout or options.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    container = resolve_container(pod, info.query_text("container"))
    _require_container_running(pod, container)
    return session_source.open_session(pod, container, options), options


def prepare_port_forward(index: ObjectIndex, info: RequestInfo, session_source: SessionSource | None) -> PortConnector:
    """Return a function that connects to the ports of a pod; raise `ApiError` when the pod does not run."""
    pod, session_source = info.require_stored_object(index).decode(), _require_session_source(session_source)
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase != "Running":
        raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
    return partial(session_source.connect_to_port, pod)


def connect_options(info: RequestInfo, command: Sequence[str]) -> dict[str, Any]:
    """Return the options of a stream as the object that admission plug-ins see."""
    kinds = {"exec": "PodExecOptions", "attach": "PodAttachOptions", "portforward": "PodPortForwardOptions"}
    options: dict[str, Any] = {"kind": kinds[info.subresource], "apiVersion": "v1"}
    if info.subresource == "portforward":
        ports = [int(port) for port in info.query_text("ports").split(",") if port.isdecimal()]
        return {**options, "ports": ports} if ports else options
    options |= {name: True for name in ("stdin", "stdout", "stderr", "tty") if info.query_bool(name)}
    if container := info.query_text("container"):
        options["container"] = container
    return {**options, "command": list(command)} if info.subresource == "exec" else options


def _require_session_source(session_source: SessionSource | None) -> SessionSource:
    if session_source is None:
        raise ServerError(501, "NotImplemented", "no node serves exec, attach and portforward")
    return session_source


def _require_container_running(pod: dict[str, Any], container: str) -> None:
    status = pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    fields = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    reported = [each for field in fields for each in status.get(field) or ()]
    if not any(each["name"] == container and "running" in (each.get("state") or {}) for each in reported):
        message = f'Internal error occurred: unable to upgrade connection: container not found ("{container}")'
        raise ServerError(500, "InternalError", message)
