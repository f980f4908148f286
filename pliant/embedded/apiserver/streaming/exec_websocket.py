"""exec and attach over WebSocket.

Channels 0 to 2 are the streams of the command, 3 is its exit status, 4 is the size of the terminal, and 255 (only in
`v5.channel.k8s.io`) closes the channel whose number follows. Before version 4, the exit status is text.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec

from pliant.embedded.apiserver.streaming.channel_websocket import NO_PROTOCOL, V4_PROTOCOLS, ChannelWebSocket
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
_STATUS_OBJECT_PROTOCOLS = ("v5.channel.k8s.io", *V4_PROTOCOLS)
EXEC_PROTOCOLS = (*_STATUS_OBJECT_PROTOCOLS, "channel.k8s.io", "base64.channel.k8s.io", NO_PROTOCOL)
_STATUS_CHANNEL, _RESIZE_CHANNEL, _CLOSE_CHANNEL = 3, 4, 255
_SHUTDOWN_NOTICE_TIMEOUT = 0.5
_OUTPUT_DRAIN_TIMEOUT = 1.0
"""Seconds to wait for output after the exit of a command whose children keep its streams open."""


def is_streaming_path(path: str) -> bool:
    parts = path.strip("/").split("/")
    return len(parts) == 7 and parts[4] == "pods" and parts[6] in STREAMING_SUBRESOURCES


async def serve_exec_session(channels: ChannelWebSocket, prepared_session: PreparedSession) -> None:
    """Run a session until the command exits or the client disconnects."""
    session_context, options = prepared_session
    with suppress(ConnectionError):  # the client disconnected
        try:
            async with session_context as session:
                exit_code = await _ExecStreamer(channels, session, options).run_until_exit()
            status = None if exit_code is None else _exit_status(exit_code)
        except SessionStartError as error:
            status = _internal_error_status(f"error executing command in container: {error}")
        except asyncio.CancelledError:
            async with asyncio.timeout(_SHUTDOWN_NOTICE_TIMEOUT):
                await _send_status(channels, _internal_error_status("the server is shutting down"))
            raise
        if status is not None:
            await _send_status(channels, status)
        await channels.close()


async def _send_status(channels: ChannelWebSocket, status: dict[str, Any]) -> None:
    if channels.protocol in _STATUS_OBJECT_PROTOCOLS:
        await channels.send(_STATUS_CHANNEL, msgspec.json.encode(status))
    elif status["status"] != "Success":
        await channels.send(_STATUS_CHANNEL, status["message"].encode())


class _ExecStreamer:
    """Copies the streams between the WebSocket of a client and a session."""

    def __init__(self, channels: ChannelWebSocket, session: ContainerSession, options: SessionOptions) -> None:
        self._channels = channels
        self._session = session
        streams = ((STDOUT, options.stdout), (STDERR, options.stderr))
        self._output_streams = [stream for stream, is_requested in streams if is_requested]
        self._has_stdin = options.stdin
        self._is_attached = not options.command

    async def run_until_exit(self) -> int | None:
        """Return the exit code of the command, or None if the client disconnects before."""
        if not self._has_stdin and not self._is_attached:
            self._session.close_input()
        receiver = asyncio.create_task(self._receive_messages())
        senders = asyncio.gather(*(self._send_output(stream) for stream in self._output_streams))
        exit_waiter = asyncio.create_task(self._session.wait_exit())
        try:
            await asyncio.wait({receiver, exit_waiter}, return_when=asyncio.FIRST_COMPLETED)
            if not exit_waiter.done():
                return receiver.result()
            await asyncio.wait({senders}, timeout=_OUTPUT_DRAIN_TIMEOUT)
            return exit_waiter.result()
        finally:
            for task in (receiver, senders, exit_waiter):
                task.cancel()
            await asyncio.gather(receiver, senders, exit_waiter, return_exceptions=True)

    async def _send_output(self, stream: int) -> None:
        await self._channels.send(stream, b"")  # an empty message tells the client that the session is open
        while data := await self._session.read(stream):
            await self._channels.send(stream, data)

    async def _receive_messages(self) -> None:
        async for channel, data in self._channels.receive():
            await self._handle_message(channel, data)

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
    width: int
    height: int


def _exit_status(exit_code: int) -> dict[str, Any]:
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
    message = f"Internal error occurred: {message}"
    return {"metadata": {}, "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
