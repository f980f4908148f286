"""The conversation with the agent: questions and answers as JSON lines, and news of what has ended."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from pliant.embedded.kubelet.runtime.agent_process import AgentLost, AgentRequestFailed
from pliant.embedded.kubelet.runtime.messages import ContainerExit

_SIGKILL_EXIT = ContainerExit(128 + signal.SIGKILL, int(signal.SIGKILL))


class AgentChannel(asyncio.Protocol):
    """JSON lines to the agent and back; answers find their question by its number."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._request_ids = itertools.count(1)
        self._pending_requests: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._exit_futures: dict[tuple[str, str], asyncio.Future[ContainerExit]] = {}
        self._buffer = b""
        self.last_message_at = 0.0
        """When the agent last said anything, by the clock of the loop."""
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
        """Everything that ran has died: whoever must know before those who wait for it is told first."""
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._on_lost()
        for question in self._pending_requests.values():
            if not question.done():
                question.set_exception(AgentLost("the node agent ended before it answered"))
        for ending in self._exit_futures.values():
            if not ending.done():
                ending.set_result(_SIGKILL_EXIT)

    def close(self) -> None:
        """Hang up on purpose: nobody is told."""
        self._on_lost = _ignore_loss
        if self._transport is not None:
            self._transport.abort()

    def next_request_id(self) -> int:
        """A number for a question that is about to be asked."""
        return next(self._request_ids)

    def send_request(self, operation: str, *, request_id: int | None = None, **details: object) -> int:
        """Ask for something whose answer nobody awaits; the number of the question."""
        request_id = request_id or next(self._request_ids)
        if self._transport is not None and not self.lost.done():
            self._transport.write(msgspec.json.encode({"id": request_id, "do": operation, **details}) + b"\n")
        return request_id

    async def request(self, operation: str, *, request_id: int | None = None, **details: object) -> dict[str, Any]:
        """Ask for something; the answer, or StartFailed with the reason why not."""
        if self.lost.done():
            raise AgentLost("the node agent is gone")
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._pending_requests[self.send_request(operation, request_id=request_id, **details)] = answer
        return await answer

    def expect_exit(self, pod_uid: str, run_name: str) -> asyncio.Future[ContainerExit]:
        """How a run that is about to start will end."""
        ending: asyncio.Future[ContainerExit] = asyncio.get_running_loop().create_future()
        self._exit_futures[pod_uid, run_name] = ending
        return ending

    def discard_exit(self, pod_uid: str, run_name: str) -> None:
        """It did not start."""
        self._exit_futures.pop((pod_uid, run_name), None)

    def _handle_message(self, message: dict[str, Any]) -> None:
        if "answers" in message:
            question = self._pending_requests.pop(message["answers"], None)
            if question is None or question.done():
                return
            if "error" in message:
                question.set_exception(AgentRequestFailed(message["error"]))
            else:
                question.set_result(message)
        elif (ending := self._exit_futures.pop((message["pod"], message["ended"]), None)) and not ending.done():
            told = ContainerExit(message["code"], message["signal"], message.get("outgrown", False))
            ending.set_result(told)


def _ignore_loss() -> None:
    """Nobody wants to know."""


class SocketReceiver:
    """Takes sockets off the handover; one that nobody waits for any more is closed."""

    def __init__(self, descriptor_socket: socket.socket) -> None:
        self._descriptor_socket = descriptor_socket
        self._received: dict[int, socket.socket | None] = {}
        self._abandoned: set[int] = set()

    def take(self, request_id: int) -> socket.socket:
        """The socket that answers a question; the agent sends it ahead of its answer."""
        self._receive(until_request_id=request_id)
        sock = self._received.pop(request_id)
        if sock is None:
            # The kernel drops a descriptor for which there is no room.
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return sock

    def abandon(self, request_id: int) -> None:
        """The socket that answers a question, which may still come, is wanted no more."""
        if request_id in self._received:
            _close_socket(self._received.pop(request_id))
        else:
            self._abandoned.add(request_id)

    def _receive(self, until_request_id: int) -> None:
        while until_request_id not in self._received:
            heard, descriptors, _, _ = socket.recv_fds(self._descriptor_socket, 64, 1)
            number = int(heard)
            sock = socket.socket(fileno=descriptors[0]) if descriptors else None
            if number in self._abandoned:
                self._abandoned.discard(number)
                _close_socket(sock)
                continue
            if sock is not None:
                sock.setblocking(False)
            self._received[number] = sock


def _close_socket(sock: socket.socket | None) -> None:
    if sock is not None:
        sock.close()
