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
from pliant.embedded.agent.container.process import START_FAILED_EXIT_CODE, close_other_descriptors
from pliant.embedded.agent.container.shim import ContainerSpec, run_shim
from pliant.embedded.agent.isolation.container_namespaces import NewNamespaces

_POOL_SIZE = 4
_WAKE_BYTE = b"."
_ANCILLARY_SIZE = socket.CMSG_SPACE(8 * 4)
"""Room for the descriptors that come with a command."""


class PreforkPool:
    """Processes that wait, each the first one of a PID namespace; more are made when there are none left."""

    def __init__(self, rootfs_dir: str) -> None:
        self._rootfs_dir = rootfs_dir
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._idle: list[tuple[int, socket.socket]] = []
        with suppress(OSError):  # whoever asks for one is told why there is none
            self._fork_batch()

    def start_container(self, spec: ContainerSpec, pod_namespaces: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Have one of them run a container in the namespaces of a pod; its id, and where it reports."""
        content = os.memfd_create("command")
        try:
            os.write(content, marshal.dumps((dict(spec), [kind for _, kind in pod_namespaces])))
            handed = [content, *(each for each, _ in pod_namespaces)]
            while True:
                if not self._idle:
                    self._fork_batch()
                process, link = self._idle.pop()
                try:
                    socket.send_fds(link, [_WAKE_BYTE], handed)
                except ConnectionError:  # somebody has killed it
                    os.waitpid(process, 0)
                    link.close()
                else:
                    return process, link.detach()
        finally:
            os.close(content)

    def _fork_batch(self) -> None:
        links = [socket.socketpair() for _ in range(_POOL_SIZE)]
        try:
            # As little as can be is done between two forks, for it makes them differ.
            for ours, theirs in links:
                syscalls.unshare(syscalls.CLONE_NEWPID)
                process = os.fork()
                if process == 0:
                    _wait_for_container(theirs, self._rootfs_dir)
                syscalls.setns(self._own_pid_namespace, syscalls.CLONE_NEWPID)
                self._idle.append((process, ours))
        finally:
            syscalls.setns(self._own_pid_namespace, syscalls.CLONE_NEWPID)
            for _, theirs in links:
                theirs.close()


def _wait_for_container(pool_socket: socket.socket, rootfs_dir: str) -> NoReturn:
    """Wait for a command, and be the first process of its container."""
    try:
        reports = pool_socket.fileno()
        close_other_descriptors(reports)
        _, ancillary, _, _ = pool_socket.recvmsg(len(_WAKE_BYTE), _ANCILLARY_SIZE)
        content, *namespaces = memoryview(ancillary[0][2]).cast("i")
        # One call that reads everything: it leaves less behind than any reader written in Python.
        command, kinds = marshal.loads(os.pread(content, os.lseek(content, 0, os.SEEK_END), 0))  # noqa: S302
        place = NewNamespaces(list(zip(namespaces, kinds, strict=True)), rootfs_dir, command["mounts"])
    except BaseException:
        os._exit(START_FAILED_EXIT_CODE)
    run_shim(command, place, reports)
