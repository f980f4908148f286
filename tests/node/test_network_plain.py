"""Where `pasta` is installed pods get out by plain sockets; where it fails they have the proxy, and it is said."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from pliant.embedded.network import pasta
from pliant.embedded.network.egress_connector import EgressPolicy
from tests.node.outside import outside_address
from tests.node.running import Running, eventually, running

_ROOT = Path(__file__).parents[2]
_TALK = """
import os, socket, sys, time
kind, host, port = sys.argv[1:]
began = time.monotonic()
try:
    s = socket.socket(type=socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
    s.settimeout(float(os.environ.get("PATIENCE", "5")))
    s.connect((host, int(port)))
    s.sendall(b"hello")
    print(s.recv(99).decode())
except OSError as problem:
    print(problem.strerror or "nothing", "at once" if time.monotonic() - began < 1 else "late")
"""


@pytest.fixture
def usable() -> None:
    """Only where pasta can work at all: elsewhere the summary of the run says that this was not tried."""
    if not pasta.is_pasta_installed():
        pytest.skip("pasta is not installed: plain sockets out of pods were NOT TRIED (apt-get install passt)")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("/dev/net/tun may not be used by this user: plain sockets out of pods were NOT TRIED")


@pytest.mark.usefixtures("usable")
async def test_a_pod_reaches_any_port_outside_by_plain_sockets(tmp_path: Path) -> None:
    async with _answering(outside_address()) as (host, tcp, udp), running(tmp_path) as cluster:
        assert await cluster.ran("env", "env | grep -i _proxy || echo nothing") == "nothing"
        both = await asyncio.gather(*(_told(cluster, name, "tcp", host, tcp) for name in ("one", "two")))
        assert both == ["heard hello"] * 2
        assert await _told(cluster, "datagrams", "udp", host, udp) == "heard hello"
        assert await _told(cluster, "node", "tcp", host, tcp, hostNetwork=True) == "heard hello"
        assert await _told(cluster, "unlucky", "tcp", host, await _free_port(host)) == "Connection refused at once"
        # Machines in a cloud are given their secrets there.
        assert await _told(cluster, "curious", "tcp", "169.254.169.254", 80) == "No route to host at once"


@pytest.mark.usefixtures("usable")
async def test_the_loopback_of_this_machine_is_reached_only_where_it_is_allowed(tmp_path: Path) -> None:
    async with _answering("127.0.0.1") as (_, port, _):
        for allowed in (False, True):
            folder = tmp_path / str(allowed)
            folder.mkdir()
            async with running(folder, egress=EgressPolicy(allow_host_loopback=allowed)) as cluster:
                there = await _told(cluster, "there", "tcp", pasta.HOST_LOOPBACK_ALIAS_ADDRESS, port, patience=1)
                assert (there == "heard hello") is allowed
                assert await _told(cluster, "own", "tcp", "127.0.0.1", port) == "Connection refused at once"
                own = await _told(cluster, "node", "tcp", "127.0.0.1", port, hostNetwork=True)
                assert own == "Connection refused at once"


async def test_without_egress_plain_sockets_lead_nowhere(tmp_path: Path) -> None:
    shut = running(tmp_path, egress=EgressPolicy(allow_external=False))
    async with _answering(outside_address()) as (host, tcp, _), shut as cluster:
        assert await _told(cluster, "asker", "tcp", host, tcp) == "Network is unreachable at once"
        assert "3128" in await cluster.ran("env", "echo $http_proxy")
        assert _programs(tmp_path) == []


@pytest.mark.usefixtures("usable")
async def test_a_machine_that_goes_out_by_a_proxy_tells_its_pods_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    async with running(tmp_path) as cluster:
        assert _programs(tmp_path)
        assert await cluster.ran("env", "echo $http_proxy") == "http://10.88.0.1:3128"


@pytest.mark.usefixtures("usable")
async def test_when_pasta_dies_pods_go_out_by_the_proxy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with running(tmp_path) as cluster:
        (program,) = _programs(tmp_path)
        os.kill(program, signal.SIGKILL)
        await eventually(lambda: bool(_said(caplog, "pasta exited")), what="its end is told")
        assert "3128" in await cluster.ran("env", "echo $http_proxy")
    assert len(_said(caplog, "pasta")) == 1


async def test_a_pasta_that_fails_is_told_once_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "pasta"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Failed to send 9 bytes to syslog'\necho no luck today >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(pasta, "_DEVICE", Path("/dev/null"))  # whatever this machine lets us use
    async with running(tmp_path) as cluster:
        assert "3128" in await cluster.ran("env", "echo $http_proxy")
    (told,) = _said(caplog, "pasta")
    assert told.getMessage() == "pasta unavailable: egress through the HTTP proxy"
    assert vars(told)["error"] == "no luck today"


@pytest.mark.usefixtures("usable")
def test_pasta_ends_with_a_cluster_that_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys; from pathlib import Path; from tests.node.running import running\n"
        "async def main() -> None:\n"
        "    async with running(Path(sys.argv[1])):\n"
        "        print('up', flush=True); await asyncio.Event().wait()\n"
        "asyncio.run(main())"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        assert len(_programs(tmp_path)) == 1
        parent.kill()
        parent.wait()
    asyncio.run(eventually(lambda: _programs(tmp_path) == [], what="pasta ends"))


async def _told(cluster: Running, name: str, kind: str, host: str, port: int, *, patience: int = 5, **spec: Any) -> str:
    """What a pod hears from somebody, or how it fails to."""
    env = [{"name": "PATIENCE", "value": str(patience)}]
    command = ["python3", "-c", _TALK, kind, host, str(port)]
    await cluster.pod(name, [{"name": "main", "command": command, "env": env}], **spec)
    await cluster.finished(name)
    return (await cluster.output(name)).strip()


def _programs(folder: Path) -> list[int]:
    """The processes whose arguments tell of pasta and of a folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if b"pasta" in words and b"--config-net" in words and os.fsencode(folder) in words:
            found.append(int(each.name))
    return found


def _said(caplog: pytest.LogCaptureFixture, words: str) -> list[logging.LogRecord]:
    return [each for each in caplog.records if words in each.getMessage()]


async def _free_port(host: str) -> int:
    server = await asyncio.start_server(lambda reader, writer: None, host, 0)
    async with server:
        return int(server.sockets[0].getsockname()[1])


class _Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(b"heard " + data, addr)


@asynccontextmanager
async def _answering(address: str) -> AsyncIterator[tuple[str, int, int]]:
    """Somebody of this machine who tells what he heard, and his ports for streams and datagrams."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"heard " + await reader.read(99))
        writer.close()

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(_Echo, local_addr=(address, 0))
    async with await asyncio.start_server(answer, address, 0) as server:
        yield address, server.sockets[0].getsockname()[1], transport.get_extra_info("sockname")[1]
    transport.close()
