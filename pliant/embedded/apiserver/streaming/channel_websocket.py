"""WebSockets whose messages begin with the number of a channel, in the binary and the base64 form of Kubernetes.

The base64 forms are text: an ASCII digit, followed by the encoded data.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator

from aiohttp import WSMsgType, web

from pliant.embedded.apiserver.http.errors import bad_request

V4_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
NO_PROTOCOL = ""
"""A client that names no protocol gets binary messages."""


def negotiate_websocket(incoming: web.Request, *protocols: str) -> web.WebSocketResponse:
    """Return the WebSocket for a streaming request; raise `BadRequest` if its protocols are not supported."""
    if incoming.headers.get("Upgrade", "").lower() != "websocket":
        raise bad_request("Upgrade: only websocket is supported; use kubectl 1.31 or later")
    offered = [each.strip() for each in incoming.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if not set(offered) & set(protocols):
        named = ", ".join(filter(None, protocols))
        raise bad_request(f"Sec-WebSocket-Protocol: must be one of {named}, got {offered}")
    return web.WebSocketResponse(protocols=protocols, compress=False)


class ChannelWebSocket:
    """Sends and receives the messages of channels on a WebSocket that is prepared."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        self._websocket = websocket
        self.protocol = websocket.ws_protocol or NO_PROTOCOL
        self._is_base64 = "base64" in self.protocol

    async def send(self, channel: int, data: bytes) -> None:
        """Send data on a channel, and wait while the client does not read."""
        if self._is_base64:
            await self._websocket.send_str(f"{channel}{base64.b64encode(data).decode()}")
        else:
            await self._websocket.send_bytes(bytes([channel]) + data)

    async def receive(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the channel and the data of each message, until the client disconnects or sends an invalid one.

        Clients may send the binary form in text frames, as the Python client of Kubernetes does.
        """
        async for message in self._websocket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            content: bytes = message.data.encode() if message.type is WSMsgType.TEXT else message.data
            if not content:
                continue
            try:
                yield self._decode(content)
            except (ValueError, binascii.Error):
                return

    async def close(self) -> None:
        await self._websocket.close()

    def _decode(self, content: bytes) -> tuple[int, bytes]:
        if self._is_base64:
            return content[0] - ord("0"), base64.b64decode(content[1:], validate=True)
        return content[0], content[1:]
