"""The way out by plain sockets: `pasta`, where it is installed, carries TCP and UDP out of the pods' network."""

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
from pliant.embedded.kubelet.runtime.node_agent import NodeAgent

PROGRAM = "pasta"
HOST_LOOPBACK_ADDRESS = "169.254.1.2"
"""Where pods reach the loopback of this machine, if they may."""
_INTERFACE_ADDRESS = "169.254.1.1"
_DEVICE = Path("/dev/net/tun")
_PROJECT_ROOT = Path(__file__).parents[3]
_LAUNCHER_CODE = (
    f"import sys; sys.path.insert(0, {str(_PROJECT_ROOT)!r}); "
    "from pliant.embedded.agent.network.pasta_launcher import main; main(sys.argv[1:])"
)
_STARTUP_TIMEOUT = 10.0
"""Seconds for the program to be ready, or gone after being told to."""
_NO_PORT_FORWARDING = ("-t", "none", "-u", "none", "-T", "none", "-U", "none")
"""Ports of this machine that lead to pods, and the other way round."""
_READY_FIFO, _LOG_FILE = "ready", "log"
_SYSLOG_NOISE = "Failed to send"
"""Begins lines about a system log that is not there."""


class PastaUnavailable(Exception):
    """There is no way out by plain sockets; the words say why."""


class PastaProcess:
    """A running program between the pods' network and this machine's."""

    def __init__(self, process: subprocess.Popen[bytes], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file

    @classmethod
    @asynccontextmanager
    async def start(
        cls, agent: NodeAgent, state_dir: Path, *, allow_host_loopback: bool
    ) -> AsyncIterator[PastaProcess]:
        """The program when it is ready, or else Unusable; gone when the context ends, or this process does."""
        program = _find_program(agent)
        process = _launch(
            agent,
            state_dir,
            _build_arguments(program, state_dir / _READY_FIFO, allow_host_loopback=allow_host_loopback),
        )
        running = cls(process, state_dir / _LOG_FILE)
        try:
            await running._wait_ready(state_dir / _READY_FIFO)
            yield running
        finally:
            process.kill()
            process.wait()

    async def wait_exited(self) -> str:
        """Return when the program has ended without having been asked to: with its last words."""
        handle = os.pidfd_open(self._process.pid)
        try:
            await _wait_first_readable(handle)
        finally:
            os.close(handle)
        return self._last_log_line() or "it said nothing"

    async def _wait_ready(self, ready_fifo: Path) -> None:
        """Wait until the program writes its number into the pipe that it takes for a file."""
        pipe, handle = os.open(ready_fifo, os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(self._process.pid)
        try:
            async with asyncio.timeout(_STARTUP_TIMEOUT):
                heard = await _wait_first_readable(pipe, handle)
            if heard != pipe:
                raise PastaUnavailable(self._last_log_line() or "it ended before it was ready")
        except TimeoutError:
            raise PastaUnavailable(f"it was not ready within {_STARTUP_TIMEOUT:.0f} s") from None
        finally:
            os.close(pipe)
            os.close(handle)

    def _last_log_line(self) -> str:
        with suppress(OSError):
            lines = self._log_file.read_text(errors="replace").splitlines()
            words = [line.strip() for line in lines if line.strip() and not line.startswith(_SYSLOG_NOISE)]
            return words[-1] if words else ""
        return ""


def is_installed() -> bool:
    """Whether this machine has the program at all."""
    return shutil.which(PROGRAM) is not None


def _find_program(agent: NodeAgent) -> str:
    """The program, if it has a chance to work here."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise PastaUnavailable("it is not installed")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        raise PastaUnavailable(f"{_DEVICE} may not be used by you; allow it with: sudo chmod 666 {_DEVICE}")
    if _network_namespace_inode(agent.pid) == _network_namespace_inode(os.getpid()):
        raise PastaUnavailable("pods share the network of this machine")
    return program


def _network_namespace_inode(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


def _launch(agent: NodeAgent, state_dir: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start the program from the thread that calls; when that thread ends, so does the program."""
    state_dir.mkdir(parents=True, exist_ok=True)
    (state_dir / _READY_FIFO).unlink(missing_ok=True)
    os.mkfifo(state_dir / _READY_FIFO, 0o600)
    with (state_dir / _LOG_FILE).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _LAUNCHER_CODE, str(agent.pid), str(state_dir / "network"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for this process, which then ends it in good order.
        )


def _build_arguments(program: str, ready_fifo: Path, *, allow_host_loopback: bool) -> list[str]:
    place = ["-I", PASTA_INTERFACE, "-a", _INTERFACE_ADDRESS, "-n", "30", "-g", HOST_LOOPBACK_ADDRESS]
    loopback = [] if allow_host_loopback else ["--no-map-gw"]
    return [
        program,
        "-f",
        "-q",
        "-4",
        "--config-net",
        "--no-dhcp",
        *place,
        *loopback,
        *_NO_PORT_FORWARDING,
        "-P",
        str(ready_fifo),
    ]


async def _wait_first_readable(*fds: int) -> int:
    """The first of some descriptors that has something to tell."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def tell(descriptor: int) -> None:
        if not told.done():
            told.set_result(descriptor)

    for each in fds:
        loop.add_reader(each, tell, each)
    try:
        return await told
    finally:
        for each in fds:
            loop.remove_reader(each)
