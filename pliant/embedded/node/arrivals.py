"""Sockets that the agent hands over: each is found by the number of the question that asked for it."""

from __future__ import annotations

import errno
import os
import socket


class Arrivals:
    """Takes sockets off the handover; one that nobody waits for any more is closed."""

    def __init__(self, handover: socket.socket) -> None:
        self._handover = handover
        self._here: dict[int, socket.socket | None] = {}
        self._unwanted: set[int] = set()

    def take(self, number: int) -> socket.socket:
        """The socket that answers a question; the agent sends it ahead of its answer."""
        self._receive(until=number)
        sock = self._here.pop(number)
        if sock is None:
            # The kernel drops a descriptor for which there is no room.
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return sock

    def abandon(self, number: int) -> None:
        """The socket that answers a question, which may still come, is wanted no more."""
        if number in self._here:
            _close(self._here.pop(number))
        else:
            self._unwanted.add(number)

    def _receive(self, until: int) -> None:
        while until not in self._here:
            heard, descriptors, _, _ = socket.recv_fds(self._handover, 64, 1)
            number = int(heard)
            sock = socket.socket(fileno=descriptors[0]) if descriptors else None
            if number in self._unwanted:
                self._unwanted.discard(number)
                _close(sock)
                continue
            if sock is not None:
                sock.setblocking(False)
            self._here[number] = sock


def _close(sock: socket.socket | None) -> None:
    if sock is not None:
        sock.close()
