"""Pods reach the world outside through a proxy; what they may not reach is refused with a reason."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.embedded.network.egress_manager import TRANSPARENT_PROXY_PORTS
from pliant.embedded.network.egress_proxy import proxy_variables
from pliant.kube.resources import SERVICES
from tests.node.outside import outside_address
from tests.node.running import Running, running

PROXY = EgressPolicy(use_pasta=False)
"""The way out of machines without `pasta`."""

Answers = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

FETCH = "curl -sS -m 10 {options} http://{host}:{port}/file 2>&1 || true"
PYTHON = (
    "import sys, urllib.error, urllib.request\n"
    "try: print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())\n"
    "except urllib.error.HTTPError as problem: print(problem.code, problem.read().decode().strip())\n"
    "except OSError as problem: print(problem)"
)


async def test_a_pod_downloads_a_file_from_outside(tmp_path: Path) -> None:
    async with _served(outside_address()) as (host, port), running(tmp_path, egress=PROXY) as cluster:
        assert await _fetched(cluster, "python", f"http://{host}:{port}/file") == "data of /file"
        assert await cluster.ran("curl", FETCH.format(options="", host=host, port=port)) == "data of /file"
        tunnel = FETCH.format(options="--proxytunnel", host=host, port=port)
        assert await cluster.ran("tunnel", tunnel) == "data of /file"


async def test_without_egress_a_pod_is_told_so(tmp_path: Path) -> None:
    host = outside_address()
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        told = await _fetched(cluster, "plain", f"http://{host}:8000/file")
        assert told == f"403 egress to {host} is denied: the cluster was started with --no-egress"
        told = await _fetched(cluster, "tunnel", f"https://{host}:8000/file")
        assert "Tunnel connection failed: 403 egress to" in told


async def test_the_loopback_of_this_machine_is_out_of_reach_unless_it_is_allowed(tmp_path: Path) -> None:
    script = f"no_proxy= NO_PROXY= python3 -c '{PYTHON}' "
    async with _served("127.0.0.1") as (_, port):
        (tmp_path / "one").mkdir()
        async with running(tmp_path / "one", egress=PROXY) as cluster:
            for number, host in enumerate(("127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]")):
                told = await cluster.ran(f"asker-{number}", f"{script} http://{host}:{port}/")
                assert told.startswith("403 ")
                assert told.endswith("pods need --allow-host-loopback to reach it")
        (tmp_path / "two").mkdir()
        async with running(tmp_path / "two", egress=EgressPolicy(allow_host_loopback=True, use_pasta=False)) as cluster:
            for number, host in enumerate(("127.0.0.1", "localhost")):
                told = await cluster.ran(f"asker-{number}", f"{script} http://{host}:{port}/x")
                assert told == "data of /x"


async def test_the_proxy_leads_into_the_cluster_too(tmp_path: Path) -> None:
    # Many programs read no ranges in no_proxy, and none can know every short name.
    serve = "cd $(mktemp -d); exec python3 -m http.server 8000"
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await cluster.client.create(SERVICES, "default", body)
        await cluster.sh("web", serve, labels={"app": "web"})
        script = f"until python3 -c '{PYTHON}' http://web/ | grep Directory >/dev/null; do sleep 0.05; done; echo found"
        assert await cluster.ran("asker", script) == "found"
        told = await _fetched(cluster, "lost", "http://nobody/")
        assert told == "502 nobody does not exist in the cluster, or has no ready endpoints"


async def test_a_program_that_knows_no_proxy_reaches_well_known_ports_outside(tmp_path: Path) -> None:
    direct = (
        "import socket, sys, time; began = time.monotonic()\n"
        "try: s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
        "except OSError as problem: print(problem.strerror, time.monotonic() - began < 1)\n"
        "else: s.sendall(b'GET /direct HTTP/1.1\\r\\n\\r\\n'); print(s.makefile().read().splitlines()[-1])"
    )
    async with (
        _served(outside_address(), *TRANSPARENT_PROXY_PORTS) as (host, port),
        running(tmp_path, egress=PROXY) as cluster,
    ):
        for name, number, network in (("known", port, False), ("other", 4444, False), ("node", port, True)):
            command = ["python3", "-c", direct, host, str(number)]
            await cluster.pod(name, [{"name": "main", "command": command}], hostNetwork=network)
            await cluster.finished(name)
        told = [(await cluster.output(name)).strip() for name in ("known", "other", "node")]
        assert told == ["data of /direct", "Connection refused True", "data of /direct"]
        metadata = "import socket; s = socket.create_connection(('169.254.169.254', 80), 5); s.recv(9)"
        await cluster.pod("curious", [{"name": "main", "command": ["python3", "-c", metadata]}])
        await cluster.finished("curious")
        assert "ConnectionResetError" in await cluster.output("curious")


async def test_a_machine_behind_a_proxy_lets_its_pods_out_through_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        is_tunnel = heard[-1].startswith(b"CONNECT")
        writer.write(b"HTTP/1.1 403 not there\r\n\r\n" if is_tunnel else b"HTTP/1.1 200 OK\r\n\r\nrelayed")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://ada:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, url)
    monkeypatch.delenv("no_proxy", raising=False)
    async with server, running(tmp_path, egress=PROXY) as cluster:
        assert await _fetched(cluster, "plain", "http://example.com/file?x=1") == "relayed"
        assert "responded: HTTP/1.1 403 not there" in await _fetched(cluster, "tunnel", "https://example.com/")
    plain, tunnel = heard
    assert plain.startswith(b"GET http://example.com/file?x=1 HTTP/1.1\r\n")
    assert tunnel.startswith(b"CONNECT example.com:443 HTTP/1.1\r\n")
    assert all(b"\r\nProxy-Authorization: Basic YWRhOnNlY3JldA==\r\n" in each for each in heard)


async def test_what_is_no_request_of_a_proxy_is_answered_as_such(tmp_path: Path) -> None:
    senseless = (
        "import socket; s = socket.create_connection(('10.88.0.1', 3128))\n"
        "s.sendall(b'hello\\r\\n\\r\\n'); print(s.recv(99).decode())"
    )
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        told = await cluster.ran("asker", "curl -sS -m 5 --noproxy '*' http://10.88.0.1:3128/")
        assert told == "this is an HTTP proxy: request http://HOST/... or CONNECT HOST:PORT"
        await cluster.pod("other", [{"name": "main", "command": ["python3", "-c", senseless]}])
        await cluster.finished("other")
        assert "400 malformed HTTP request line" in await cluster.output("other")


def test_programs_are_told_of_the_proxy_in_every_usual_way() -> None:
    told = proxy_variables("10.88.0.1", [".team"])
    assert told["http_proxy"] == told["HTTPS_PROXY"] == "http://10.88.0.1:3128"
    assert {"localhost", "127.0.0.1", ".svc", ".cluster.local", ".team", "10.96.0.0/16"} <= set(
        told["NO_PROXY"].split(",")
    )
    assert len(told) == 6


async def _fetched(cluster: Running, name: str, url: str) -> str:
    await cluster.pod(name, [{"name": "main", "command": ["python3", "-c", PYTHON, url]}])
    await cluster.finished(name)
    return (await cluster.output(name)).strip()


@asynccontextmanager
async def _served(address: str, *ports: int) -> AsyncIterator[tuple[str, int]]:
    """A web server of this machine, at one of some ports, that says which path it was asked for."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = b"data of " + path
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        writer.close()

    async with await _started(answer, address, [each for each in ports if each > 1023] or [0]) as server:
        yield address, server.sockets[0].getsockname()[1]


async def _started(answer: Answers, address: str, ports: Sequence[int]) -> asyncio.Server:
    for port in ports:
        with suppress(OSError):
            return await asyncio.start_server(answer, address, port)
    raise AssertionError(f"every port of {ports} is taken")
