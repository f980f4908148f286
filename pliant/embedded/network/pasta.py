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

from pliant.embedded.agent.wayout import LINK
from pliant.embedded.node.link import NodeAgent

PROGRAM = "pasta"
THIS_MACHINE = "169.254.1.2"
"""Where pods reach the loopback of this machine, if they may."""
_OURS = "169.254.1.1"
_DEVICE = Path("/dev/net/tun")
_PACKAGE = Path(__file__).parents[3]
_START = (
    f"import sys; sys.path.insert(0, {str(_PACKAGE)!r}); "
    "from pliant.embedded.agent.wayout import main; main(sys.argv[1:])"
)
_PATIENCE = 10.0
"""Seconds for the program to be ready, or gone after being told to."""
_NOTHING = ("-t", "none", "-u", "none", "-T", "none", "-U", "none")
"""Ports of this machine that lead to pods, and the other way round."""
_READY, _LOG = "ready", "log"
_NOISE = "Failed to send"
"""Begins lines about a system log that is not there."""


class Unusable(Exception):
    """There is no way out by plain sockets; the words say why."""


class Pasta:
    """A running program between the pods' network and this machine's."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path) -> None:
        self._process = process
        self._said = said

    @classmethod
    @asynccontextmanager
    async def started(cls, agent: NodeAgent, folder: Path, *, host_loopback: bool) -> AsyncIterator[Pasta]:
        """The program when it is ready, or else Unusable; gone when the context ends, or this process does."""
        program = _found(agent)
        process = _launched(agent, folder, _arguments(program, folder / _READY, host_loopback=host_loopback))
        running = cls(process, folder / _LOG)
        try:
            await running._until_ready(folder / _READY)
            yield running
        finally:
            process.kill()
            process.wait()

    async def wait_ended(self) -> str:
        """Return when the program has ended without having been asked to: with its last words."""
        handle = os.pidfd_open(self._process.pid)
        try:
            await _first_readable(handle)
        finally:
            os.close(handle)
        return self._last_words() or "it said nothing"

    async def _until_ready(self, ready: Path) -> None:
        """Wait until the program writes its number into the pipe that it takes for a file."""
        pipe, handle = os.open(ready, os.O_RDONLY | os.O_NONBLOCK), os.pidfd_open(self._process.pid)
        try:
            async with asyncio.timeout(_PATIENCE):
                heard = await _first_readable(pipe, handle)
            if heard != pipe:
                raise Unusable(self._last_words() or "it ended before it was ready")
        except TimeoutError:
            raise Unusable(f"it was not ready within {_PATIENCE:.0f} s") from None
        finally:
            os.close(pipe)
            os.close(handle)

    def _last_words(self) -> str:
        with suppress(OSError):
            lines = self._said.read_text(errors="replace").splitlines()
            words = [line.strip() for line in lines if line.strip() and not line.startswith(_NOISE)]
            return words[-1] if words else ""
        return ""


def is_installed() -> bool:
    """Whether this machine has the program at all."""
    return shutil.which(PROGRAM) is not None


def _found(agent: NodeAgent) -> str:
    """The program, if it has a chance to work here."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise Unusable("it is not installed")
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        raise Unusable(f"{_DEVICE} may not be used by you; allow it with: sudo chmod 666 {_DEVICE}")
    if _network_of(agent.process) == _network_of(os.getpid()):
        raise Unusable("pods share the network of this machine")
    return program


def _network_of(process: int) -> int:
    return Path(f"/proc/{process}/ns/net").stat().st_ino


def _launched(agent: NodeAgent, folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Start the program from the thread that calls; when that thread ends, so does the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _READY).unlink(missing_ok=True)
    os.mkfifo(folder / _READY, 0o600)
    with (folder / _LOG).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(agent.process), str(folder / "network"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,  # Ctrl-C is for this process, which then ends it in good order.
        )


def _arguments(program: str, ready: Path, *, host_loopback: bool) -> list[str]:
    place = ["-I", LINK, "-a", _OURS, "-n", "30", "-g", THIS_MACHINE]
    loopback = [] if host_loopback else ["--no-map-gw"]
    return [program, "-f", "-q", "-4", "--config-net", "--no-dhcp", *place, *loopback, *_NOTHING, "-P", str(ready)]


async def _first_readable(*descriptors: int) -> int:
    """The first of some descriptors that has something to tell."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def tell(descriptor: int) -> None:
        if not told.done():
            told.set_result(descriptor)

    for each in descriptors:
        loop.add_reader(each, tell, each)
    try:
        return await told
    finally:
        for each in descriptors:
            loop.remove_reader(each)
