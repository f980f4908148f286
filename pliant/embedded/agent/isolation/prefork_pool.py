"""A pool of shims that are forked in batches before containers need them.

A forked process shares its memory pages with its parent until one of them writes to a page, and Python writes to
every object that it uses. The busy agent would soon unshare its pages with shims that are forked one by one. Shims
of one batch keep sharing these pages with each other, and no container waits for a fork.
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
"""Space for the descriptors of a container."""


class PreforkPool:
    """Idle shims, each the first process of its own PID namespace; a new batch is forked when none is left."""

    def __init__(self, rootfs_dir: str) -> None:
        self._rootfs_dir = rootfs_dir
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._idle: list[tuple[int, socket.socket]] = []
        with suppress(OSError):  # start_container forks again and reports the error.
            self._fork_batch()

    def start_container(self, spec: ContainerSpec, pod_namespaces: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Start a container in an idle shim and return the pid of the shim and its report descriptor."""
        spec_fd = os.memfd_create("container-spec")
        try:
            os.write(spec_fd, marshal.dumps((dict(spec), [namespace_type for _, namespace_type in pod_namespaces])))
            descriptors = [spec_fd, *(namespace_fd for namespace_fd, _ in pod_namespaces)]
            while True:
                if not self._idle:
                    self._fork_batch()
                pid, shim_socket = self._idle.pop()
                try:
                    socket.send_fds(shim_socket, [_WAKE_BYTE], descriptors)
                except ConnectionError:  # The idle shim was killed.
                    os.waitpid(pid, 0)
                    shim_socket.close()
                else:
                    return pid, shim_socket.detach()
        finally:
            os.close(spec_fd)

    def _fork_batch(self) -> None:
        pairs = [socket.socketpair() for _ in range(_POOL_SIZE)]
        try:
            # Do as little as possible between two forks: each write unshares a page.
            for own_end, shim_end in pairs:
                syscalls.unshare(syscalls.CLONE_NEWPID)
                pid = os.fork()
                if pid == 0:
                    _wait_for_container(shim_end, self._rootfs_dir)
                syscalls.setns(self._own_pid_namespace, syscalls.CLONE_NEWPID)
                self._idle.append((pid, own_end))
        finally:
            syscalls.setns(self._own_pid_namespace, syscalls.CLONE_NEWPID)
            for _, shim_end in pairs:
                shim_end.close()


def _wait_for_container(pool_socket: socket.socket, rootfs_dir: str) -> NoReturn:
    """Wait for the spec of a container and run it."""
    try:
        report_fd = pool_socket.fileno()
        close_other_descriptors(report_fd)
        _, ancillary, _, _ = pool_socket.recvmsg(len(_WAKE_BYTE), _ANCILLARY_SIZE)
        spec_fd, *namespace_fds = memoryview(ancillary[0][2]).cast("i")
        # marshal reads everything in one call and leaves less garbage than a parser written in Python.
        spec, namespace_types = marshal.loads(os.pread(spec_fd, os.lseek(spec_fd, 0, os.SEEK_END), 0))  # noqa: S302
        pod_namespaces = list(zip(namespace_fds, namespace_types, strict=True))
        namespaces = NewNamespaces(pod_namespaces, rootfs_dir, spec["mounts"])
    except BaseException:
        os._exit(START_FAILED_EXIT_CODE)
    run_shim(spec, namespaces, report_fd)
