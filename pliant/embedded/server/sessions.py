"""What the server needs from a node to answer `kubectl exec` and `kubectl attach`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pliant.embedded.server.calls import Call
from pliant.embedded.server.pods import container_of
from pliant.embedded.server.refusals import absent, senseless
from pliant.embedded.storage.shelves import Shelves
from pliant.errors import PliantError, ServerError

STDIN, STDOUT, STDERR = 0, 1, 2


class CannotStart(PliantError):
    """The command could not be started; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What to run, nothing for an attachment, and what to hear of it."""

    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class Session(Protocol):
    """A running command, or a running container one has attached to."""

    async def read(self, stream: int) -> bytes:
        """The next output on STDOUT or STDERR; nothing at its end."""

    async def write(self, data: bytes) -> None:
        """Give input; a reader that has gone is no error."""

    def close_input(self) -> None:
        """There will be no more input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal, if there is one, how large it is."""

    async def ended(self) -> int:
        """Wait for the end; the exit code as a shell would tell it."""


class SessionSource(Protocol):
    """Opens sessions in containers that run; `CannotStart` when that fails."""

    def open(self, pod: dict[str, Any], container: str, wishes: Wishes) -> AbstractAsyncContextManager[Session]:
        """A session that is over when its context ends, and what was started for it with it."""

    async def connect(self, pod: dict[str, Any], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a port of a pod, as if from the pod itself; OSError when nobody listens there."""


Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Reaches a port of one pod; OSError says why it cannot."""
Opening = tuple[AbstractAsyncContextManager[Session], Wishes]


def opening(shelves: Shelves, call: Call, command: Sequence[str], source: SessionSource | None) -> Opening:
    """A session that is ready to be opened; refused when nothing runs that it could be about."""
    record = shelves.get(call.key)
    if record is None:
        raise absent(call.kind, call.name)
    if source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to run commands on")
    pod, is_exec = record.decode(), call.subresource == "exec"
    wishes = Wishes(
        command=tuple(command) if is_exec else (),
        stdin=call.flag("stdin"),
        stdout=call.flag("stdout"),
        stderr=call.flag("stderr") and not call.flag("tty"),
        tty=call.flag("tty"),
    )
    if is_exec and not any(command):
        raise senseless("command: say what to run, for example `kubectl exec POD -- COMMAND`")
    if not (wishes.stdin or wishes.stdout or wishes.stderr):
        raise senseless("you must specify at least 1 of stdin, stdout, stderr")
    container = container_of(pod, call.text("container"))
    _require_running(pod, container)
    return source.open(pod, container, wishes), wishes


def forwarding(shelves: Shelves, call: Call, source: SessionSource | None) -> Connect:
    """How to reach the ports of a pod; refused when it does not run."""
    record = shelves.get(call.key)
    if record is None:
        raise absent(call.kind, call.name)
    if source is None:
        raise ServerError(501, "NotImplemented", "this server has no node to forward ports of")
    pod = record.decode()
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase != "Running":
        raise senseless(f"unable to forward port because pod is not running. Current status={phase}")
    return partial(source.connect, pod)


def _require_running(pod: dict[str, Any], container: str) -> None:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if not pod["spec"].get("nodeName"):
        raise senseless(f"pod {name} does not have a host assigned")
    reported = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    if not any(each["name"] == container and "running" in (each.get("state") or {}) for each in reported):
        message = (
            f'unable to upgrade connection: container not found ("{container}"): it does not run in pod {name}'
        )
        raise ServerError(500, "InternalError", f"Internal error occurred: {message}")
