"""What the server needs from a node to answer `kubectl exec` and `kubectl attach`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pliant.embedded.apiserver.handlers.pod_subresources import resolve_container
from pliant.embedded.apiserver.http.errors import bad_request, not_found
from pliant.embedded.apiserver.http.request_info import RequestInfo
from pliant.embedded.storage.object_index import ObjectIndex
from pliant.errors import PliantError, ServerError

STDIN, STDOUT, STDERR = 0, 1, 2


class SessionStartError(PliantError):
    """The command could not be started; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What to run, nothing for an attachment, and what to hear of it."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class ContainerSession(Protocol):
    """A running command, or a running container one has attached to."""

    async def read(self, stream: int) -> bytes:
        """The next output on STDOUT or STDERR; nothing at its end."""

    async def write(self, data: bytes) -> None:
        """Give input; a reader that has gone is no error."""

    def close_input(self) -> None:
        """There will be no more input."""

    async def resize_terminal(self, columns: int, rows: int) -> None:
        """Tell the terminal, if there is one, how large it is."""

    async def wait_exit(self) -> int:
        """Wait for the end; the exit code as a shell would tell it."""


class SessionSource(Protocol):
    """Opens sessions in containers that run; `SessionStartError` when that fails."""

    def open_session(
        self, pod: dict[str, Any], container: str, options: SessionOptions
    ) -> AbstractAsyncContextManager[ContainerSession]:
        """A session that is over when its context ends, and what was started for it with it."""

    async def connect_to_port(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod, as if from the pod itself; OSError when nobody listens there."""


PortConnector = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Reaches a port of one pod; OSError says why it cannot."""
PreparedSession = tuple[AbstractAsyncContextManager[ContainerSession], SessionOptions]


def prepare_session(
    index: ObjectIndex, info: RequestInfo, command: Sequence[str], session_source: SessionSource | None
) -> PreparedSession:
    """A session that is ready to be opened; refused when nothing runs that it could be about."""
    record = index.get(info.key)
    if record is None:
        raise not_found(info.kind, info.name)
    if session_source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to run commands on")
    pod, is_exec = record.decode(), info.subresource == "exec"
    wishes = SessionOptions(
        command=tuple(command) if is_exec else (),
        stdin=info.query_bool("stdin"),
        stdout=info.query_bool("stdout"),
        stderr=info.query_bool("stderr") and not info.query_bool("tty"),
        tty=info.query_bool("tty"),
    )
    if is_exec and not any(command):
        raise bad_request("command: say what to run, for example `kubectl exec POD -- COMMAND`")
    if not (wishes.stdin or wishes.stdout or wishes.stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    container = resolve_container(pod, info.query_text("container"))
    _require_container_running(pod, container)
    return session_source.open_session(pod, container, wishes), wishes


def prepare_port_forward(index: ObjectIndex, info: RequestInfo, session_source: SessionSource | None) -> PortConnector:
    """How to reach the ports of a pod; refused when it does not run."""
    record = index.get(info.key)
    if record is None:
        raise not_found(info.kind, info.name)
    if session_source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to forward ports of")
    pod = record.decode()
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase != "Running":
        raise bad_request(f"unable to forward port because pod is not running. Current status={phase}")
    return partial(session_source.connect_to_port, pod)


def _require_container_running(pod: dict[str, Any], container: str) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {name} does not have a host assigned")
    reported = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    if not any(each["name"] == container and "running" in (each.get("state") or {}) for each in reported):
        message = f'unable to upgrade connection: container not found ("{container}"): it does not run in pod {name}'
        raise ServerError(500, "InternalError", f"Internal error occurred: {message}")
