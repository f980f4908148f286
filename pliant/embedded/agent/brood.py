"""First processes of containers to come: born together, and waiting for something to do.

A forked process shares its memory with others until one of them writes to it, and Python writes to whatever it
looks at. The agent is always busy: what it forks one by one soon has all pages to itself that the agent looks at.
Those that are born together go on sharing these with each other. And no container has to wait for a fork.
"""

from __future__ import annotations

import marshal
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container import Command, live
from pliant.embedded.agent.place import Own
from pliant.embedded.agent.process import NOT_STARTED, close_all_but

_SIZE = 4
_WORD = b"."
_SPACE = socket.CMSG_SPACE(8 * 4)
"""Room for the descriptors that come with a command."""


class Brood:
    """Processes that wait, each the first one of a PID namespace; more are made when there are none left."""

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._waiting: list[tuple[int, socket.socket]] = []
        with suppress(OSError):  # whoever asks for one is told why there is none
            self._hatch()

    def start(self, command: Command, namespaces: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Have one of them run a container in the namespaces of a pod; its id, and where it reports."""
        content = os.memfd_create("command")
        try:
            os.write(content, marshal.dumps((dict(command), [kind for _, kind in namespaces])))
            handed = [content, *(each for each, _ in namespaces)]
            while True:
                if not self._waiting:
                    self._hatch()
                process, link = self._waiting.pop()
                try:
                    socket.send_fds(link, [_WORD], handed)
                except ConnectionError:  # somebody has killed it
                    os.waitpid(process, 0)
                    link.close()
                else:
                    return process, link.detach()
        finally:
            os.close(content)

    def _hatch(self) -> None:
        links = [socket.socketpair() for _ in range(_SIZE)]
        try:
            # As little as can be is done between two forks, for it makes them differ.
            for ours, theirs in links:
                syscalls.unshare(syscalls.NEW_PIDS)
                process = os.fork()
                if process == 0:
                    _wait(theirs, self._stage)
                syscalls.setns(self._own_pids, syscalls.NEW_PIDS)
                self._waiting.append((process, ours))
        finally:
            syscalls.setns(self._own_pids, syscalls.NEW_PIDS)
            for _, theirs in links:
                theirs.close()


def _wait(link: socket.socket, stage: str) -> NoReturn:
    """Wait for a command, and be the first process of its container."""
    try:
        reports = link.fileno()
        close_all_but(reports)
        _, ancillary, _, _ = link.recvmsg(len(_WORD), _SPACE)
        content, *namespaces = memoryview(ancillary[0][2]).cast("i")
        # One call that reads everything: it leaves less behind than any reader written in Python.
        command, kinds = marshal.loads(os.pread(content, os.lseek(content, 0, os.SEEK_END), 0))  # noqa: S302
        place = Own(list(zip(namespaces, kinds, strict=True)), stage, command["mounts"])
    except BaseException:
        os._exit(NOT_STARTED)
    live(command, place, reports)
