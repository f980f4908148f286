"""Sockets that the agent hands over: each is found by the number of the question that asked for it."""

from __future__ import annotations

import socket


class Arrivals:
    """Takes sockets off the handover; one that nobody waits for any more is closed."""

    def __init__(self, handover: socket.socket) -> None:
        self._handover = handover
        self._here: dict[int, socket.socket] = {}
        self._unwanted: set[int] = set()

    def take(self, number: int) -> socket.socket:
        """The socket that answers a question; the agent sends it ahead of its answer."""
        self._receive(until=number)
        return self._here.pop(number)

    def abandon(self, number: int) -> None:
        """The socket that answers a question, which may still come, is wanted no more."""
        if number in self._here:
            self._here.pop(number).close()
        else:
            self._unwanted.add(number)

    def close(self) -> None:
        """Close what nobody took."""
        for sock in self._here.values():
            sock.close()

    def _receive(self, until: int) -> None:
        while until not in self._here:
            heard, descriptors, _, _ = socket.recv_fds(self._handover, 64, 1)
            number, sock = int(heard), socket.socket(fileno=descriptors[0])
            sock.setblocking(False)
            if number in self._unwanted:
                self._unwanted.discard(number)
                sock.close()
            else:
                self._here[number] = sock
