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

from pliant.embedded.server.refusals import senseless
from pliant.embedded.server.sessions import STDERR, STDIN, STDOUT, CannotStart, Opening, Session, Wishes

SUBRESOURCES = ("exec", "attach", "portforward")
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_OUTCOME, _SIZE, _CLOSE = 3, 4, 255
_SLOW_FAREWELL = 0.5
"""Seconds within which a user can be told that the server stops."""
_SLOW_OUTPUT = 1.0
"""Seconds for which output is still awaited when the command has ended but others hold its streams open."""


def is_session(path: str) -> bool:
    """Whether a path asks for a session and not for an object."""
    parts = path.strip("/").split("/")
    return len(parts) == 7 and parts[4] == "pods" and parts[6] in SUBRESOURCES


def require_websocket(incoming: web.Request, *protocols: str) -> web.WebSocketResponse:
    """The answer to a request that asks for a session; refused to whoever does not speak its protocols."""
    if incoming.headers.get("Upgrade", "").lower() != "websocket":
        raise senseless("Upgrade: only WebSocket is spoken here: use kubectl 1.31 or later")
    offered = [each.strip() for each in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not set(offered) & set(protocols):
        raise senseless(f"Sec-WebSocket-Protocol: needs one of {', '.join(protocols)}, got {offered}")
    return web.WebSocketResponse(protocols=protocols, compress=False)


async def converse(socket: web.WebSocketResponse, opening: Opening) -> None:
    """Carry a session until the command or its user ends it."""
    opened, wishes = opening
    with suppress(ConnectionError):  # the user left: nobody is there to be told
        try:
            async with opened as session:
                code = await _Conversation(socket, session, wishes).code()
            outcome = _outcome(code)
        except CannotStart as problem:
            outcome = _failure(f"error executing command in container: {problem}")
        except asyncio.CancelledError:
            async with asyncio.timeout(_SLOW_FAREWELL):
                await _tell_outcome(socket, _failure("the server is being stopped"))
            raise
        if outcome is not None:
            await _tell_outcome(socket, outcome)
        await socket.close()


async def _tell_outcome(socket: web.WebSocketResponse, outcome: dict[str, Any]) -> None:
    await socket.send_bytes(bytes([_OUTCOME]) + msgspec.json.encode(outcome))


class _Conversation:
    """One user, one command, and what they say to each other."""

    def __init__(self, socket: web.WebSocketResponse, session: Session, wishes: Wishes) -> None:
        self._socket = socket
        self._session = session
        self._heard = [each for each, is_wanted in ((STDOUT, wishes.stdout), (STDERR, wishes.stderr)) if is_wanted]
        self._is_fed = wishes.stdin
        self._is_attached = not wishes.command

    async def code(self) -> int | None:
        """How the command ended; None when its user has left before."""
        if not self._is_fed and not self._is_attached:
            self._session.close_input()
        listening = asyncio.create_task(self._listen())
        telling = asyncio.gather(*(self._tell(stream) for stream in self._heard))
        ending = asyncio.create_task(self._session.ended())
        try:
            await asyncio.wait({listening, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                return listening.result()
            await asyncio.wait({telling}, timeout=_SLOW_OUTPUT)
            return ending.result()
        finally:
            for task in (listening, telling, ending):
                task.cancel()
            await asyncio.gather(listening, telling, ending, return_exceptions=True)

    async def _tell(self, stream: int) -> None:
        mark = bytes([stream])
        await self._socket.send_bytes(mark)  # an empty message: the session is open
        while data := await self._session.read(stream):
            await self._socket.send_bytes(mark + data)

    async def _listen(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.BINARY and message.data:
                await self._hear(message.data[0], message.data[1:])

    async def _hear(self, channel: int, data: bytes) -> None:
        if channel == STDIN and self._is_fed and data:
            await self._session.write(data)
        elif channel == _CLOSE and data[:1] == bytes([STDIN]):
            self._session.close_input()
        elif channel == _SIZE:
            with suppress(msgspec.DecodeError, msgspec.ValidationError):
                size = msgspec.json.decode(data, type=_Size)
                await self._session.resize(size.width, size.height)


class _Size(msgspec.Struct, frozen=True, rename="pascal"):
    """The columns and rows of a terminal."""

    width: int
    height: int


def _outcome(code: int | None) -> dict[str, Any] | None:
    if code is None:
        return None
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failure(message: str) -> dict[str, Any]:
    whole = f"Internal error occurred: {message}"
    return {"metadata": {}, "status": "Failure", "message": whole, "reason": "InternalError", "code": 500}
