"""Port forwarding over the channels of a WebSocket: one connection for each port of the request.

Port number `i` of the request has two channels: `2 * i` for data and `2 * i + 1` for an error. The first message of
each channel is the port, as two bytes in little-endian order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from pliant.embedded.apiserver.http.errors import bad_request
from pliant.embedded.apiserver.streaming.channel_websocket import NO_PROTOCOL, V4_PROTOCOLS, ChannelWebSocket
from pliant.embedded.apiserver.streaming.portforward import connection_error_message
from pliant.embedded.apiserver.streaming.sessions import PortConnection, PortConnector

PORT_CHANNEL_PROTOCOLS = (*V4_PROTOCOLS, NO_PROTOCOL)
_READ_CHUNK_BYTES = 1 << 15
_MAX_PORT = 65535
_MAX_PORTS = 64


def parse_ports(values: Sequence[str]) -> list[int]:
    """Return the ports of the query parameter `ports`, which may be repeated and may contain commas."""
    if not values:
        raise bad_request('query parameter "ports" is required')
    numbers = [number for value in values for number in value.split(",")]
    for number in numbers:
        if not (number.isascii() and number.isdecimal() and 0 < int(number) <= _MAX_PORT):
            raise bad_request(
                f'query parameter "ports": Invalid value: "{number}": must be a port from 1 to {_MAX_PORT}'
            )
    if len(numbers) > _MAX_PORTS:
        raise bad_request(f'query parameter "ports": Too many: {len(numbers)}: must have at most {_MAX_PORTS} ports')
    return [int(number) for number in numbers]


async def forward_port_channels(channels: ChannelWebSocket, connect: PortConnector, ports: Sequence[int]) -> None:
    """Forward one connection to each port, until all of them are closed or the client disconnects."""
    connections = [_ForwardedPort(channels, 2 * index, port) for index, port in enumerate(ports)]
    with suppress(ConnectionError):  # the client disconnected
        for connection in connections:
            await connection.announce()
        forwarding = asyncio.create_task(_forward_all(connections, connect))
        receiving = asyncio.create_task(_receive(channels, connections))
        try:
            await asyncio.wait({receiving, forwarding}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
            forwarding.cancel()
            await asyncio.gather(receiving, forwarding, return_exceptions=True)
        await channels.close()


async def _forward_all(connections: Sequence[_ForwardedPort], connect: PortConnector) -> None:
    await asyncio.gather(*(connection.forward(connect) for connection in connections))


async def _receive(channels: ChannelWebSocket, connections: Sequence[_ForwardedPort]) -> None:
    """Write what the client sends; a pod that does not read holds the client back."""
    async for channel, data in channels.receive():
        index, is_error_channel = divmod(channel, 2)
        if index < len(connections) and not is_error_channel:
            await connections[index].write(data)


class _ForwardedPort:
    def __init__(self, channels: ChannelWebSocket, data_channel: int, port: int) -> None:
        self._channels = channels
        self._data_channel = data_channel
        self._port = port
        self._connected: asyncio.Future[PortConnection | None] = asyncio.get_running_loop().create_future()

    async def announce(self) -> None:
        """Tell the client which port the two channels belong to."""
        port = self._port.to_bytes(2, "little")
        await self._channels.send(self._data_channel, port)
        await self._channels.send(self._data_channel + 1, port)

    async def forward(self, connect: PortConnector) -> None:
        """Connect, and send what the pod sends; the error channel reports a connection that failed."""
        try:
            reader, writer = connection = await connect(self._port)
        except OSError as error:
            self._connected.set_result(None)
            await self._channels.send(self._data_channel + 1, connection_error_message(self._port, error))
            return
        self._connected.set_result(connection)
        try:
            with suppress(OSError):
                while content := await reader.read(_READ_CHUNK_BYTES):
                    await self._channels.send(self._data_channel, content)
        finally:
            writer.close()

    async def write(self, data: bytes) -> None:
        """Write to the pod, and wait while it does not read; drop the data if the connection is closed."""
        connection = await asyncio.shield(self._connected)
        if connection is not None and data:
            with suppress(OSError):
                connection[1].write(data)
                await connection[1].drain()
