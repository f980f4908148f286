"""Egress through `pasta`, which carries TCP and UDP from the pod network to the host network."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from pliant.embedded.agent.network.pasta_launcher import PASTA_INTERFACE
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient

PASTA_PROGRAM_NAME = "pasta"
HOST_LOOPBACK_ALIAS_ADDRESS = "169.254.1.2"
"""Address at which pods reach the loopback of the host, if that is allowed."""
_INTERFACE_ADDRESS = "169.254.1.1"
_DEVICE = Path("/dev/net/tun")
_PROJECT_ROOT = Path(__file__).parents[3]
_LAUNCHER_CODE = (
    f"import sys; sys.path.insert(0, {str(_PROJECT_ROOT)!r}); "
    "from pliant.embedded.agent.network.pasta_launcher import main; main(sys.argv[1:])"
)
_STARTUP_TIMEOUT = 10.0
_NO_PORT_FORWARDING = ("-t", "none", "-u", "none", "-T", "none", "-U", "none")
_READY_FIFO, _LOG_FILE = "ready", "log"
_SYSLOG_NOISE = "Failed to send"
"""Prefix of messages about a missing system log."""


class PastaUnavailable(Exception):
    """pasta cannot be used; the message is the reason."""


class PastaProcess:
    def __init__(self, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file

    @classmethod
    @asynccontextmanager
    async def start(
        cls, agent: NodeAgentClient, state_dir: Path, *, allow_host_loopback: bool
    ) -> AsyncIterator[PastaProcess]:
        """Start pasta and wait until it is ready; it ends with the context, or with this process."""
        ready_fifo = state_dir / _READY_FIFO
        arguments = _build_arguments(_find_program(agent), ready_fifo, allow_host_loopback=allow_host_loopback)
        process = _launch(agent, state_dir, arguments)
        pasta = cls(process, state_dir / _LOG_FILE)
        try:
            await pasta._wait_ready(ready_fifo)
            yield pasta
        finally:
            process.kill()
            process.wait()

    async def wait_exited(self) -> str:
        """Wait until pasta exits on its own; return the last line of its log."""
        pid_fd = os.pidfd_open(self._process.pid)
        try:
            await _wait_first_readable(pid_fd)
        finally:
            os.close(pid_fd)
        return self._last_log_line() or "no output"

    async def _wait_ready(self, ready_fifo: Path) -> None:
        fifo_fd, pid_fd = os.open(ready_fifo, os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(self._process.pid)
        try:
            async with asyncio.timeout(_STARTUP_TIMEOUT):
                readable = await _wait_first_readable(fifo_fd, pid_fd)
            if readable != fifo_fd:
                raise PastaUnavailable(self._last_log_line() or "pasta exited before it was ready")
        except TimeoutError:
            raise PastaUnavailable(f"pasta was not ready within {_STARTUP_TIMEOUT:.0f} s") from None
        finally:
            os.close(fifo_fd)
            os.close(pid_fd)

    def _last_log_line(self) -> str:
        with suppress(OSError):
            lines = self._log_file.read_text(errors="replace").splitlines()
            messages = [line.strip() for line in lines if line.strip() and not line.startswith(_SYSLOG_NOISE)]
            return messages[-1] if messages else ""
        return ""


def is_pasta_installed() -> bool:
    return shutil.which(PASTA_PROGRAM_NAME) is not None


def _find_program(agent: NodeAgentClient) -> str:
    program = shutil.which(PASTA_PROGRAM_NAME)
    if program is None:
        raise PastaUnavailable("pasta is not installed")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        raise PastaUnavailable(f"no permission to use {_DEVICE}; grant it with: sudo chmod 666 {_DEVICE}")
    if _network_namespace_inode(agent.pid) == _network_namespace_inode(os.getpid()):
        raise PastaUnavailable("pods use the host network")
    return program


def _network_namespace_inode(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _launch(agent: NodeAgentClient, state_dir: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start pasta from the calling thread; it ends when that thread ends."""
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / _READY_FIFO).unlink(missing_ok=True)
    os.mkfifo(state_dir / _READY_FIFO, 0o600)
    with (state_dir / _LOG_FILE).open("wb") as log_file:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER_CODE, str(agent.pid), str(state_dir / "network"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,  # so that Ctrl-C reaches only this process, which then stops pasta
        )


def _build_arguments(program: str, ready_fifo: Path, *, allow_host_loopback: bool) -> list[str]:
    interface = ["-I", PASTA_INTERFACE, "-a", _INTERFACE_ADDRESS, "-n", "30", "-g", HOST_LOOPBACK_ALIAS_ADDRESS]
    loopback = [] if allow_host_loopback else ["--no-map-gw"]
    general = ["-f", "-q", "-4", "--config-net", "--no-dhcp"]
    return [program, *general, *interface, *loopback, *_NO_PORT_FORWARDING, "-P", str(ready_fifo)]


async def _wait_first_readable(*fds: int) -> int:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[int] = loop.create_future()

    def set_readable(fd: int) -> None:
        if not readable.done():
            readable.set_result(fd)

    for each in fds:
        loop.add_reader(each, set_readable, each)
    try:
        return await readable
    finally:
        for each in fds:
            loop.remove_reader(each)
