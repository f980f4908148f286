"""The two sockets to the node agent: JSON requests, replies and exits, and sockets that the agent opens."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from pliant.embedded.kubelet.runtime.messages import AgentLost, AgentRequestFailed, ContainerExit, ExitFuture

_SIGKILL_EXIT = ContainerExit(128 + signal.SIGKILL, int(signal.SIGKILL))


class AgentChannel(asyncio.Protocol):
    """Sends requests as JSON lines and matches replies and exits with those who wait for them."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost: Callable[[], None] | None = on_lost
        self._transport: asyncio.Transport | None = None
        self._request_ids = itertools.count(1)
        self._pending_replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._exit_futures: dict[tuple[str, str], ExitFuture] = {}
        """Futures by pod uid and run name."""
        self._buffer = b""
        self.last_message_at = 0.0
        """The time of the event loop at which the agent last sent anything."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.last_message_at = asyncio.get_running_loop().time()
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle_message(msgspec.json.decode(line))

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all requests and report all containers as killed, after `on_lost` has run."""
        if self.lost.done():
            return
        self.lost.set_result(None)
        if self._on_lost is not None:
            self._on_lost()
        for reply in self._pending_replies.values():
            if not reply.done():
                reply.set_exception(AgentLost("the node agent exited before it replied"))
        for exit_future in self._exit_futures.values():
            if not exit_future.done():
                exit_future.set_result(_SIGKILL_EXIT)

    def close(self) -> None:
        """Close the connection without a call of `on_lost`."""
        self._on_lost = None
        if self._transport is not None:
            with suppress(OSError):
                # A forked child of this process may hold the socket open.
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            self._transport.abort()

    def next_request_id(self) -> int:
        return next(self._request_ids)

    def send_request(self, operation: str, *, request_id: int | None = None, **details: object) -> int:
        """Send a request and return its id, without waiting for the reply."""
        request_id = request_id or next(self._request_ids)
        if self._transport is not None and not self.lost.done():
            self._transport.write(msgspec.json.encode({"id": request_id, "operation": operation, **details}) + b"\n")
        return request_id

    async def request(self, operation: str, *, request_id: int | None = None, **details: object) -> dict[str, Any]:
        """Send a request and return the reply; raise AgentRequestFailed if the agent reports an error."""
        if self.lost.done():
            raise AgentLost("the node agent has exited")
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending_replies[self.send_request(operation, request_id=request_id, **details)] = reply
        return await reply

    def expect_exit(self, pod_uid: str, run_name: str) -> ExitFuture:
        """Return a future for the exit of a container or session that is about to start."""
        exit_future: ExitFuture = asyncio.get_running_loop().create_future()
        self._exit_futures[pod_uid, run_name] = exit_future
        return exit_future

    def discard_exit(self, pod_uid: str, run_name: str) -> None:
        """Forget the future of a container or session that did not start."""
        self._exit_futures.pop((pod_uid, run_name), None)

    def _handle_message(self, message: dict[str, Any]) -> None:
        if "reply_to" in message:
            reply = self._pending_replies.pop(message["reply_to"], None)
            if reply is None or reply.done():
                return
            if "error" in message:
                reply.set_exception(AgentRequestFailed(message["error"]))
            else:
                reply.set_result(message)
            return
        exit_future = self._exit_futures.pop((message["pod"], message["exited_run"]), None)
        if exit_future is not None and not exit_future.done():
            oom_killed = message.get("oom_killed", False)
            exit_future.set_result(ContainerExit(message["code"], message["signal"], oom_killed))


class SocketReceiver:
    """Receives the sockets that the agent opens and closes those of cancelled requests."""

    def __init__(self, descriptor_socket: socket.socket) -> None:
        self._descriptor_socket = descriptor_socket
        self._received: dict[int, socket.socket | None] = {}
        self._abandoned: set[int] = set()

    def take(self, request_id: int) -> socket.socket:
        """Return the socket of a request; the agent sends it before its reply."""
        while request_id not in self._received:
            self._receive()
        sock = self._received.pop(request_id)
        if sock is None:
            # The kernel drops descriptors that exceed the limit of this process.
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return sock

    def abandon(self, request_id: int) -> None:
        """Close the socket of a cancelled request, now or when it arrives."""
        if request_id not in self._received:
            self._abandoned.add(request_id)
        elif (sock := self._received.pop(request_id)) is not None:
            sock.close()

    def _receive(self) -> None:
        data, descriptors, _, _ = socket.recv_fds(self._descriptor_socket, 64, 1)
        request_id = int(data)
        self._received[request_id] = socket.socket(fileno=descriptors[0]) if descriptors else None
        if (sock := self._received[request_id]) is not None:
            sock.setblocking(False)
        if request_id in self._abandoned:
            self._abandoned.discard(request_id)
            self.abandon(request_id)
