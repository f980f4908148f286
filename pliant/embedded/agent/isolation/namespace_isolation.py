"""Isolation with Linux namespaces, and the pool of shims that are forked in batches before containers need them.

A forked process shares its memory pages with its parent until one of them writes to a page, and Python writes to
every object that it uses. The busy agent would soon unshare its pages with shims that are forked one by one. Shims
of one batch keep sharing these pages with each other, and no container waits for a fork.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import NoReturn

from pliant.embedded.agent import syscalls
from pliant.embedded.agent.container.config import ContainerConfig, Program
from pliant.embedded.agent.container.process import START_FAILED_EXIT_CODE, ShimHandle, close_other_descriptors
from pliant.embedded.agent.container.shim import fork_container_shim, fork_session_shim, run_container_shim
from pliant.embedded.agent.isolation.container_namespaces import JoinedNamespaces, NewNamespaces, TargetNamespaces
from pliant.embedded.agent.isolation.rootfs import open_beneath
from pliant.embedded.agent.network.sandbox import PodBridge, Sandbox

_ALL_PIDS = -1
_POOL_SIZE = 4
_WAKE_BYTE = b"."
_ANCILLARY_SIZE = socket.CMSG_SPACE(8 * 4)
"""Space for the descriptors of a container."""


class NamespaceIsolation:
    """Runs each pod in its own namespaces; the kernel kills the processes in them."""

    def __init__(self, network: PodBridge, rootfs_dir: str) -> None:
        self._network = network
        self._rootfs_dir = rootfs_dir
        self._prefork_pool = PreforkPool(rootfs_dir)
        self._proc_dir = ""

    def create_sandbox(self, pod_uid: str, hostname: str, *, own_network: bool, address: str) -> Sandbox:
        return self._network.create_sandbox(pod_uid, hostname, own_network=own_network)

    def remove_sandbox(self, sandbox: Sandbox) -> None:
        self._network.remove_sandbox(sandbox)

    def start_container(self, config: ContainerConfig, sandbox: Sandbox, target_pid: int | None) -> ShimHandle:
        """Start a container, in the PID namespace whose first process is `target_pid`, or in a new one."""
        for mount in config["mounts"]:
            if mount.get("memory_name"):
                os.makedirs(sandbox.memory_dir, exist_ok=True)
                os.close(open_beneath(sandbox.memory_dir, mount["memory_name"], create=True))
                mount["source"] = f"{sandbox.memory_dir}/{mount['memory_name']}"
                mount["beneath"] = sandbox.memory_dir
        if target_pid is None:
            return self._prefork_pool.start_container(config, sandbox.namespaces)
        with _open_pidfd(target_pid) as pidfd:
            namespaces = TargetNamespaces(pidfd, sandbox.namespaces, self._rootfs_dir, config["mounts"])
            return fork_container_shim(config, namespaces)

    def start_session(
        self, program: Program, container_pids: tuple[int, int], stdio_fds: Sequence[int], *, has_terminal: bool
    ) -> ShimHandle:
        """Start a command in a container, given the pid of its shim and the first process of its PID namespace."""
        with _open_pidfd(container_pids[0]) as pidfd, _open_pidfd(container_pids[1]) as pid_namespace_pidfd:
            namespaces = JoinedNamespaces(pidfd, pid_namespace_pidfd)
            return fork_session_shim(program, namespaces, stdio_fds, has_terminal=has_terminal)

    def signal_container(self, shim_pid: int, signal_number: int) -> None:
        """Send a signal to all processes of a container except its shim, in one step that no fork can escape."""
        with suppress(ProcessLookupError):
            pidfd = os.pidfd_open(shim_pid)
            try:
                child = os.fork()
                if child == 0:
                    _enter_and_signal(pidfd, signal_number)
                os.waitpid(child, 0)
            finally:
                os.close(pidfd)

    def kill_run_by_shim(self, shim_pid: int) -> None:
        os.kill(shim_pid, signal.SIGKILL)  # The kernel kills the rest of the PID namespace.

    def kill_orphaned_session(self, shim_pid: int) -> None:
        """Do nothing: the kernel kills all processes of a PID namespace."""

    def kill_unknown_children(self, known_pids: set[int]) -> None:
        """Do nothing: no process outlives its PID namespace."""

    def enter_network(self, sandbox: Sandbox | None, *, in_egress: bool) -> AbstractContextManager[None]:
        """Enter the network of a pod, the egress network, or the agent's own, within the context."""
        if sandbox is not None:
            return self._network.in_sandbox_network(sandbox)
        return self._network.in_egress_network() if in_egress else nullcontext()

    def ensure_pods_proc_dir(self) -> str:
        """Mount a /proc that lists the processes of all pods on first use, and return it."""
        if not self._proc_dir:
            directory = self._rootfs_dir + ".proc"
            os.makedirs(directory, exist_ok=True)
            syscalls.mount("proc", directory, "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
            self._proc_dir = directory
        return self._proc_dir


@contextmanager
def _open_pidfd(pid: int) -> Iterator[int]:
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _enter_and_signal(container_pidfd: int, signal_number: int) -> None:
    """Send the signal from a process inside the namespace: only there does -1 mean all its processes."""
    try:
        syscalls.setns(container_pidfd, syscalls.CLONE_NEWPID)
        sender = os.fork()
        if sender == 0:
            os.kill(_ALL_PIDS, signal_number)
            os._exit(0)
        os.waitpid(sender, 0)
    finally:
        os._exit(0)


class PreforkPool:
    """Idle shims, each the first process of its own PID namespace; a new batch is forked when none is left."""

    def __init__(self, rootfs_dir: str) -> None:
        self._rootfs_dir = rootfs_dir
        self._own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._idle: list[tuple[int, socket.socket]] = []
        with suppress(OSError):  # start_container forks again and reports the error.
            self._fork_batch()

    def start_container(self, config: ContainerConfig, pod_namespaces: Sequence[tuple[int, int]]) -> ShimHandle:
        """Start a container in an idle shim."""
        config_fd = os.memfd_create("container-config")
        try:
            os.write(config_fd, marshal.dumps((dict(config), [namespace_type for _, namespace_type in pod_namespaces])))
            descriptors = [config_fd, *(namespace_fd for namespace_fd, _ in pod_namespaces)]
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
            os.close(config_fd)

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
    """Wait for the configuration of a container and run it."""
    try:
        report_fd = pool_socket.fileno()
        close_other_descriptors(report_fd)
        _, ancillary, _, _ = pool_socket.recvmsg(len(_WAKE_BYTE), _ANCILLARY_SIZE)
        config_fd, *namespace_fds = memoryview(ancillary[0][2]).cast("i")
        # marshal reads everything in one call and leaves less garbage than a parser written in Python.
        content = os.pread(config_fd, os.lseek(config_fd, 0, os.SEEK_END), 0)
        config, namespace_types = marshal.loads(content)  # noqa: S302
        pod_namespaces = list(zip(namespace_fds, namespace_types, strict=True))
        namespaces = NewNamespaces(pod_namespaces, rootfs_dir, config["mounts"])
    except BaseException:
        os._exit(START_FAILED_EXIT_CODE)
    run_container_shim(config, namespaces, report_fd)
