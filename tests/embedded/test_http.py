"""The server over HTTPS: who is let in, what is bounded, how it ends."""

from __future__ import annotations

import asyncio
import gzip
import io
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import aiohttp
import msgspec
import pytest
from cryptography import x509

from pliant.embedded.apiserver.auth.cluster_credentials import ensure_serving_certificate
from pliant.embedded.apiserver.http import incoming_body
from pliant.embedded.apiserver.http.https_server import bind_loopback_socket
from pliant.errors import NotFound, Unreachable
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import CONFIG_MAPS, PODS
from pliant.kube.transport.base import Transport
from pliant.runtime.clock import SystemClock
from tests.embedded.serving import TOKEN, Reachable, Served, config, pod, reachable, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpsFixture:
    server: Served
    at: Reachable
    session: aiohttp.ClientSession
    transport: Transport

    async def status(self, path: str, *, method: str = "GET", **headers: str) -> int:
        async with self.session.request(method, self.at.url + path, headers=headers) as answer:
            await answer.read()
            return answer.status


@pytest.fixture
async def https(tmp_path: Path) -> AsyncIterator[HttpsFixture]:
    async with serving() as server, reachable(server.api, tmp_path) as at:
        trust = ssl.create_default_context(cadata=at.authority.decode())
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
            transport = create_transport(at.kubeconfig, None, SystemClock().now)
            yield HttpsFixture(server=server, at=at, session=session, transport=transport)
            await transport.aclose()


async def test_the_kubeconfig_lets_a_client_in(https: HttpsFixture) -> None:
    assert https.at.kubeconfig.stat().st_mode & 0o777 == 0o600
    client = KubeClient(https.transport)
    made = await client.create(PODS, "default", pod("a"))
    assert await client.get(PODS, "default", "a") == made
    with pytest.raises(NotFound, match='pods "b" not found'):
        await client.get(PODS, "default", "b")


async def test_nobody_else_gets_in(https: HttpsFixture) -> None:
    for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        assert await https.status("/api/v1/pods", **given) == 401
        assert await https.status("/api/v1/namespaces", method="POST", **given) == 401
    for scheme in ("Bearer", "bearer"):
        assert await https.status("/api/v1/pods", Authorization=f"{scheme} {TOKEN}") == 200


async def test_health_and_version_are_public_and_nothing_else_is(https: HttpsFixture) -> None:
    for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
        assert await https.status(path) == 200
    assert await https.status("/healthz", method="POST") == 401
    for path in ("/", "/api", "/apis", "/openapi/v3", "/healthz/../api", "/nowhere"):
        assert await https.status(path) in (401, 403)


async def test_other_names_are_not_answered_to(https: HttpsFixture) -> None:
    let_in = {"Authorization": f"Bearer {TOKEN}"}
    assert await https.status("/api", Host="evil.example.org", **let_in) == 403
    assert await https.status("/api", Origin="https://evil.example.org", **let_in) == 403
    for name in ("localhost", "kubernetes.default.svc", "kubernetes.default.svc:443", "[::1]:6443"):
        assert await https.status("/api", Host=name, **let_in) == 200


async def test_bodies_are_bounded(https: HttpsFixture) -> None:
    url, let_in = https.at.url + CONFIG_MAPS.path("default"), {"Authorization": f"Bearer {TOKEN}"}
    for name, size, status in (("big", 1_000_000, 201), ("huge", 4_000_000, 413)):
        body = io.BytesIO(msgspec.json.encode(config(name, data={"x": "y" * size})))
        headers = {**let_in, "Content-Type": "application/json"}
        async with https.session.post(url, data=body, headers=headers) as answer:
            assert answer.status == status
            assert (await answer.json())["kind"] == {201: "ConfigMap", 413: "Status"}[status]
    assert len((await KubeClient(https.transport).get(CONFIG_MAPS, "default", "big"))["data"]["x"]) == 1_000_000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer \udcff\udcfe"}, 401),
        ({"Authorization": "Bearer ä.b.c"}, 401),
        ({"Authorization": f"Bearer {TOKEN}", "Origin": "http://["}, 403),
    ],
    ids=["a token of no text", "a token of letters beyond ASCII", "no origin"],
)
async def test_malformed_headers_are_refused_without_a_traceback(
    https: HttpsFixture, headers: dict[str, str], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await send_raw(https, request_head(headers) + b"some text")
    assert_refused(answer, status, caplog)


def _gzip_of(config_name: str) -> bytes:
    return gzip.compress(msgspec.json.encode(config(config_name)))


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"not gzip at all", 400),
        ("gzip", _gzip_of("cut")[:-9], 400),
        ("gzip", _gzip_of("longer") + b"more", 400),
        ("gzip", b"\x1f\x8b\x08" + b"\xff" * 500, 400),
        ("gzip", gzip.compress(b" " * 200_000_000, 1), 413),
        ("deflate", b"not deflate", 400),
        ("br", b"anything", 415),
        ("gzip, gzip", b"anything", 415),
    ],
    ids=["no gzip", "truncated", "trailing", "noise", "bomb", "no deflate", "brotli", "twice"],
)
async def test_a_bad_compressed_body_is_refused_without_a_traceback(
    https: HttpsFixture, encoding: str, body: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    length = {"Content-Length": str(len(body))}
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": encoding, **length}
    assert_refused(await send_raw(https, request_head(headers) + body), status, caplog)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "identity"])
async def test_a_compressed_body_is_read(https: HttpsFixture, encoding: str) -> None:
    plain = msgspec.json.encode(config("packed"))
    body = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain), "identity": plain}[encoding]
    length = {"Content-Length": str(len(body))}
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": encoding, **length}
    assert (await send_raw(https, request_head(headers) + body)).startswith(b"HTTP/1.1 201")


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
async def test_a_body_in_bad_chunks_is_refused_without_a_traceback(
    https: HttpsFixture, token: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming_body, "BODY_TIMEOUT_SECONDS", 1.0)  # the rest of the body never arrives
    headers = {"Authorization": f"Bearer {token}", "Transfer-Encoding": "chunked"}
    start = request_head(headers, length=False) + b"5\r\nhello\r\n"
    answer = await send_raw(https, start, b"no-size\r\n")
    assert_refused(answer, 408 if token == TOKEN else 401, caplog)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02 no HTTP\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /api HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/x\r\n\r\n",
    ],
    ids=["noise", "version", "header", "long header", "length", "pipelined"],
)
async def test_a_request_that_is_no_http_is_refused_without_a_traceback(
    https: HttpsFixture, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await send_raw(https, sent)
    assert b"HTTP/1.1 400" in answer or b"HTTP/1.0 400" in answer
    assert [record for record in caplog.records if record.exc_info] == []


def request_head(headers: Mapping[str, str], *, length: bool = True) -> bytes:
    """The head of a POST request; a body of nine bytes follows, unless the headers say otherwise."""
    defaults = {"Host": "localhost", "Content-Type": "application/json", "Connection": "close"}
    if length:
        defaults["Content-Length"] = "9"
    lines = [f"POST {CONFIG_MAPS.path('default')} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in {**defaults, **headers}.items()]
    return "\r\n".join([*lines, "", ""]).encode(errors="surrogateescape")


async def send_raw(https: HttpsFixture, sent: bytes, later: bytes = b"") -> bytes:
    """Send bytes on a connection of their own, and more after a while; return all that comes back."""
    trust = ssl.create_default_context(cadata=https.at.authority.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", int(https.at.url.rpartition(":")[2]), ssl=trust)
    writer.write(sent)
    if later:
        await asyncio.sleep(0.2)  # so that the server reads it on its own
        writer.write(later)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def assert_refused(answer: bytes, status: int, caplog: pytest.LogCaptureFixture) -> None:
    """Assert that a Status answers, and that the log has no traceback."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert int(head.split()[1]) == status
    assert msgspec.json.decode(body)["kind"] == "Status"
    assert [record for record in caplog.records if record.exc_info] == []


async def test_long_addresses_are_read(https: HttpsFixture) -> None:
    many = ",".join(f"name-{number:05}" for number in range(2000))
    found = await KubeClient(https.transport).list(PODS, "default", labels=f"x in ({many})")
    assert found.items == []


async def test_large_lists_arrive_whole(https: HttpsFixture) -> None:
    client = KubeClient(https.transport)
    for number in range(30):
        await client.create(CONFIG_MAPS, "default", config(f"c{number:02}", data={"x": "y" * 50_000}))
    found = await client.list(CONFIG_MAPS, "default")
    assert [len(item["data"]["x"]) for item in found.items] == [50_000] * 30


async def test_discovery_is_not_sent_twice(https: HttpsFixture) -> None:
    let_in = {"Authorization": f"Bearer {TOKEN}"}
    async with https.session.get(f"{https.at.url}/apis", headers=let_in) as answer:
        tag = answer.headers["ETag"]
    assert await https.status("/apis", **let_in, **{"If-None-Match": tag}) == 304


async def test_a_watch_streams_and_ends_with_the_server(tmp_path: Path) -> None:
    async with serving() as server:
        async with reachable(server.api, tmp_path) as at:
            transport = create_transport(at.kubeconfig, None, SystemClock().now)
            client = KubeClient(transport)
            received: asyncio.Queue[str] = asyncio.Queue()

            async def listen() -> None:
                async for event in client.watch(
                    CONFIG_MAPS, "default", resource_version=str(server.api.store.committed.version)
                ):
                    received.put_nowait(event.type)

            listening = asyncio.create_task(listen())
            await client.create(CONFIG_MAPS, "default", config("a"))
            assert await asyncio.wait_for(received.get(), 5) == "ADDED"
            before = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - before < 1.5
        await asyncio.wait_for(listening, 5)
        with pytest.raises(Unreachable):
            await client.get(CONFIG_MAPS, "default", "a")
        await transport.aclose()


async def test_a_watcher_that_leaves_is_forgotten(https: HttpsFixture) -> None:
    let_in = {"Authorization": f"Bearer {TOKEN}"}
    url = f"{https.at.url}/api/v1/configmaps?watch=true&resourceVersion={https.server.api.store.committed.version}"
    history = https.server.api.store.committed.history("/configmaps")
    async with https.session.get(url, headers=let_in) as answer:
        assert answer.status == 200
        await wait_until(lambda: len(history._waiting) == 1)
        answer.close()
    await wait_until(lambda: len(history._waiting) == 0)
    assert (await https.at.front.load())._stream_tasks == set()


async def test_a_reader_that_leaves_in_the_middle_is_no_error(
    https: HttpsFixture, caplog: pytest.LogCaptureFixture
) -> None:
    client = KubeClient(https.transport)
    for number in range(60):
        await client.create(CONFIG_MAPS, "default", config(f"c{number:02}", data={"x": "y" * 900_000}))
    let_in, application = {"Authorization": f"Bearer {TOKEN}"}, await https.at.front.load()
    # More than the buffers on the way hold, so that the server has to wait for its reader.
    async with https.session.get(f"{https.at.url}/api/v1/configmaps", headers=let_in) as answer:
        await wait_until(lambda: len(application._stream_tasks) == 1)
        answer.close()
    await wait_until(lambda: not application._stream_tasks)
    assert [record.getMessage() for record in caplog.records if record.name == "aiohttp.server"] == []


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - the other side of a socket sets no event here
            await asyncio.sleep(0.01)


async def test_more_sockets_may_join(https: HttpsFixture) -> None:
    handed_over = bind_loopback_socket()
    port = handed_over.getsockname()[1]
    await https.at.front.add_listener(handed_over)
    async with https.session.get(f"https://127.0.0.1:{port}/healthz") as answer:
        assert await answer.text() == "ok"


def test_certificates_satisfy_strict_verifiers(tmp_path: Path) -> None:
    identity = ensure_serving_certificate(tmp_path, _now(), extra_names=["10.0.0.1"])
    assert identity.key_path.stat().st_mode & 0o777 == 0o600
    authority = x509.load_pem_x509_certificate(identity.ca_certificate)
    server = x509.load_pem_x509_certificate(identity.cert_path.read_bytes())
    for certificate, is_authority in ((authority, True), (server, False)):
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        assert (constraints.critical, constraints.value.ca) == (True, is_authority)
        certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", "kubernetes.default.svc"} <= set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "10.0.0.1"} <= {str(name) for name in names.get_values_for_type(x509.IPAddress)}


def test_an_identity_is_kept_until_it_must_cover_more(tmp_path: Path) -> None:
    first = ensure_serving_certificate(tmp_path, _now())
    assert ensure_serving_certificate(tmp_path, _now()).ca_certificate == first.ca_certificate
    assert ensure_serving_certificate(tmp_path, _now(), extra_names=["10.0.0.1"]).ca_certificate != first.ca_certificate


def _now() -> datetime:
    return SystemClock().now()
