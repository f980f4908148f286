"""The exit status, streams and errors of the requests to the node agent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from pliant.errors import PliantError


class AgentRequestFailed(PliantError):
    """The node agent could not fulfil a request; the message says why."""


class AgentLost(AgentRequestFailed):
    """The node agent has exited, and all pods with it."""


class ContainerExit(msgspec.Struct, frozen=True):
    """The exit status of a container or session."""

    code: int
    signal: int = 0
    is_oom_killed: bool = False


ExitFuture = asyncio.Future[ContainerExit]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecStreams:
    """Open descriptors for the standard streams of a session; the caller closes them."""

    stdin: int
    stdout: int
    stderr: int
    is_terminal: bool = False
    """All three are the inner end of a pseudo-terminal, which becomes the controlling terminal of the command."""
