"""Sessions over WebSocket: the channels in which kubectl speaks with a command.

Every message begins with the number of its channel: 0 to 2 are the streams of the command, 3 tells how it ended,
4 is the size of the terminal, and 255 (only in `v5.channel.k8s.io`) closes the channel whose number follows.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import WSMsgType, web

from pliant.embedded.apiserver.http.errors import bad_request
from pliant.embedded.apiserver.streaming.sessions import (
    STDERR,
    STDIN,
    STDOUT,
    ContainerSession,
    PreparedSession,
    SessionOptions,
    SessionStartError,
)

STREAMING_SUBRESOURCES = ("exec", "attach", "portforward")
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STATUS_CHANNEL, _RESIZE_CHANNEL, _CLOSE_CHANNEL = 3, 4, 255
_SHUTDOWN_NOTICE_TIMEOUT = 0.5
"""Seconds within which a user can be told that the server stops."""
_OUTPUT_DRAIN_TIMEOUT = 1.0
"""Seconds for which output is still awaited when the command has ended but others hold its streams open."""


def is_streaming_path(path: str) -> bool:
    """Whether a path asks for a session and not for an object."""
    parts = path.strip("/").split("/")
    return len(parts) == 7 and parts[4] == "pods" and parts[6] in STREAMING_SUBRESOURCES


def negotiate_websocket(incoming: web.Request, *protocols: str) -> web.WebSocketResponse:
    """The answer to a request that asks for a session; refused to whoever does not speak its protocols."""
    if incoming.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade: only WebSocket is spoken here: use kubectl 1.31 or later")
    offered = [each.strip() for each in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not set(offered) & set(protocols):
        raise bad_request(f"Sec-WebSocket-Protocol: needs one of {', '.join(protocols)}, got {offered}")
    return web.WebSocketResponse(protocols=protocols, compress=False)


async def serve_exec_session(websocket: web.WebSocketResponse, prepared_session: PreparedSession) -> None:
    """Carry a session until the command or its user ends it."""
    opened, wishes = prepared_session
    with suppress(ConnectionError):  # the user left: nobody is there to be told
        try:
            async with opened as session:
                code = await _ExecStreamer(websocket, session, wishes).run_until_exit()
            outcome = _exit_status(code)
        except SessionStartError as problem:
            outcome = _internal_error_status(f"error executing command in container: {problem}")
        except asyncio.CancelledError:
            async with asyncio.timeout(_SHUTDOWN_NOTICE_TIMEOUT):
                await _send_status(websocket, _internal_error_status("the server is being stopped"))
            raise
        if outcome is not None:
            await _send_status(websocket, outcome)
        await websocket.close()


async def _send_status(websocket: web.WebSocketResponse, status: dict[str, Any]) -> None:
    await websocket.send_bytes(bytes([_STATUS_CHANNEL]) + msgspec.json.encode(status))


class _ExecStreamer:
    """One user, one command, and what they say to each other."""

    def __init__(self, websocket: web.WebSocketResponse, session: ContainerSession, options: SessionOptions) -> None:
        self._websocket = websocket
        self._session = session
        self._output_streams = [
            each for each, is_wanted in ((STDOUT, options.stdout), (STDERR, options.stderr)) if is_wanted
        ]
        self._has_stdin = options.stdin
        self._is_attached = not options.command

    async def run_until_exit(self) -> int | None:
        """How the command ended; None when its user has left before."""
        if not self._has_stdin and not self._is_attached:
            self._session.close_input()
        listening = asyncio.create_task(self._receive_messages())
        telling = asyncio.gather(*(self._send_output(stream) for stream in self._output_streams))
        ending = asyncio.create_task(self._session.wait_exit())
        try:
            await asyncio.wait({listening, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                return listening.result()
            await asyncio.wait({telling}, timeout=_OUTPUT_DRAIN_TIMEOUT)
            return ending.result()
        finally:
            for task in (listening, telling, ending):
                task.cancel()
            await asyncio.gather(listening, telling, ending, return_exceptions=True)

    async def _send_output(self, stream: int) -> None:
        mark = bytes([stream])
        await self._websocket.send_bytes(mark)  # an empty message: the session is open
        while data := await self._session.read(stream):
            await self._websocket.send_bytes(mark + data)

    async def _receive_messages(self) -> None:
        async for message in self._websocket:
            if message.type is WSMsgType.BINARY and message.data:
                await self._handle_message(message.data[0], message.data[1:])

    async def _handle_message(self, channel: int, data: bytes) -> None:
        if channel == STDIN and self._has_stdin and data:
            await self._session.write(data)
        elif channel == _CLOSE_CHANNEL and data[:1] == bytes([STDIN]):
            self._session.close_input()
        elif channel == _RESIZE_CHANNEL:
            with suppress(msgspec.DecodeError, msgspec.ValidationError):
                size = msgspec.json.decode(data, type=_TerminalSize)
                await self._session.resize_terminal(size.width, size.height)


class _TerminalSize(msgspec.Struct, frozen=True, rename="pascal"):
    """The columns and rows of a terminal."""

    width: int
    height: int


def _exit_status(exit_code: int | None) -> dict[str, Any] | None:
    if exit_code is None:
        return None
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


def _internal_error_status(message: str) -> dict[str, Any]:
    whole = f"Internal error occurred: {message}"
    return {"metadata": {}, "status": "Failure", "message": whole, "reason": "InternalError", "code": 500}
