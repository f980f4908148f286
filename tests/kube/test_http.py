from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pliant.errors import Unreachable
from pliant.kube.auth.credentials import ClientCertificate, Credential, StaticCredentials
from pliant.kube.auth.tls import TlsConfig
from pliant.kube.client import KubeClient
from pliant.kube.client_config import find_api_server as find
from pliant.kube.resources import PODS
from pliant.kube.transport.base import Request
from pliant.kube.transport.http import ApiServerEndpoint, HttpTransport
from tests.kube.certificates import BEGINNING, Pair, make_pair

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SECRET = StaticCredentials(Credential(authorization="Bearer secret"))


def find_endpoint(kubeconfig: Path, context: str | None = None) -> ApiServerEndpoint:
    return find(kubeconfig, context, {}, lambda: BEGINNING)


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        scheme = "https" if tls else "http"
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(endpoint: ApiServerEndpoint) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(endpoint)
    try:
        yield transport
    finally:
        await transport.aclose()


async def echo(request: web.Request) -> web.Response:
    body = {
        "method": request.method,
        "path": request.raw_path,
        "query": dict(request.query),
        "body": (await request.read()).decode(),
        "headers": {name.lower(): value for name, value in request.headers.items()},
        "peer": request.transport.get_extra_info("peername")[1] if request.transport else 0,
        "peercert": bool(request.transport and request.transport.get_extra_info("peercert")),
    }
    return web.json_response(body)


async def test_a_request_arrives_as_it_was_meant() -> None:
    async with served(echo) as url, connected(ApiServerEndpoint(url=url, credentials=SECRET)) as transport:
        request = Request(
            method="PATCH",
            path="/api/v1/pods/a%2Fb",
            query={"labelSelector": "a in (b, c),d!=é"},
            body=b"{}",
            content_type="application/merge-patch+json",
        )
        seen = json.loads((await transport.send(request)).body)
    assert (seen["method"], seen["body"]) == ("PATCH", "{}")
    assert seen["path"].startswith("/api/v1/pods/a%2Fb?")
    assert seen["query"] == {"labelSelector": "a in (b, c),d!=é"}
    assert seen["headers"]["content-type"] == "application/merge-patch+json"
    assert seen["headers"]["authorization"] == "Bearer secret"
    assert seen["headers"]["user-agent"].startswith("pliant/")


async def test_connections_are_used_again() -> None:
    async with served(echo) as url, connected(ApiServerEndpoint(url=url)) as transport:
        replies = [await transport.send(Request(method="GET", path="/")) for _ in range(3)]
    assert len({json.loads(reply.body)["peer"] for reply in replies}) == 1


async def test_a_closed_client_sends_nothing_and_opens_no_session() -> None:
    async with served(echo) as url:
        async with connected(ApiServerEndpoint(url=url)) as transport:
            await transport.send(Request(method="GET", path="/"))
        with pytest.raises(Unreachable, match="the client is closed"):
            await transport.send(Request(method="GET", path="/"))
        assert transport._session is None


async def test_redirects_are_not_followed_with_our_credentials() -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    async with served(redirect) as url, connected(ApiServerEndpoint(url=url, credentials=SECRET)) as transport:
        assert (await transport.send(Request(method="GET", path="/"))).status == 302


async def test_a_refused_connection_is_unreachable() -> None:
    async with connected(ApiServerEndpoint(url="http://127.0.0.1:1")) as transport:
        with pytest.raises(Unreachable, match=r"GET http://127\.0\.0\.1:1/x: Connection refused$"):
            await transport.send(Request(method="GET", path="/x"))
        with pytest.raises(Unreachable):
            async with transport.stream(Request(method="GET", path="/x", timeout=None)):
                pass


class Rotating:
    """A login whose credential a test can replace."""

    def __init__(self, *credentials: Credential) -> None:
        self.credentials = list(credentials)

    async def credential(self) -> Credential:
        return self.credentials[0]

    async def renew_after_rejection(self, refused: Credential) -> bool:
        if len(self.credentials) > 1:
            self.credentials.pop(0)
        return self.credentials[0] != refused


def token(text: str) -> Credential:
    return Credential(authorization=f"Bearer {text}")


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_refused_credential_is_renewed_once_whatever_was_asked(method: str) -> None:
    seen: list[str] = []

    async def guarded(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=200 if seen[-1] == "Bearer new" else 401)

    request = Request(method=method, path="/", body=b"{}")
    login = Rotating(token("old"), token("new"))
    async with served(guarded) as url, connected(ApiServerEndpoint(url=url, credentials=login)) as transport:
        assert (await transport.send(request)).status == 200
        login.credentials = [token("wrong")]
        assert (await transport.send(request)).status == 401
        login.credentials = [token("old"), token("new")]
        async with transport.stream(request) as reply:
            assert reply.status == 200
    assert seen == ["Bearer old", "Bearer new", "Bearer wrong", "Bearer old", "Bearer new"]


async def test_a_proxy_carries_everything_and_may_refuse() -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(str(request.url))
        return web.Response(body=b"by proxy")

    async with served(proxy) as url:
        endpoint = ApiServerEndpoint(
            url="http://cluster.example:1", proxy_url=url, headers=(("X-Twice", "1"), ("X-Twice", "2"))
        )
        async with connected(endpoint) as transport:
            assert (await transport.send(Request(method="GET", path="/x"))).body == b"by proxy"
        refusing = ApiServerEndpoint(url="https://cluster.example:1", tls=TlsConfig(), proxy_url=url)
        async with connected(refusing) as transport:
            with pytest.raises(Unreachable, match="proxy"):
                await transport.send(Request(method="GET", path="/x"))
    assert asked[0] == "http://cluster.example:1/x"


async def test_no_answer_in_time_is_unreachable() -> None:
    async def stall(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    async with served(stall) as url, connected(ApiServerEndpoint(url=url)) as transport:
        with pytest.raises(Unreachable, match="time"):
            await transport.send(Request(method="GET", path="/x", timeout=0.05))


async def test_an_answer_cut_short_is_unreachable() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"type":')
        assert request.transport is not None
        request.transport.abort()
        return response

    async with served(cut) as url, connected(ApiServerEndpoint(url=url)) as transport:
        with pytest.raises(Unreachable):
            await transport.send(Request(method="GET", path="/"))
        with pytest.raises(Unreachable):
            [e async for e in KubeClient(transport).watch(PODS, resource_version="1")]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST", "PATCH"])
async def test_a_request_is_sent_once_even_when_its_connection_breaks(method: str) -> None:
    seen: list[str] = []

    async def break_off(request: web.Request) -> web.Response:
        seen.append(request.method)
        if len(seen) > 1 and request.transport is not None:
            request.transport.abort()
        return web.Response()

    async with served(break_off) as url, connected(ApiServerEndpoint(url=url)) as transport:
        await transport.send(Request(method="GET", path="/"))
        with pytest.raises(Unreachable):
            await transport.send(Request(method=method, path="/"))
    assert seen == ["GET", method]


async def test_a_watch_over_http_reads_lines_of_any_length_and_leaving_ends_it() -> None:
    left = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for name in ("small", "big"):
            data = "x" * (2_000_000 if name == "big" else 1)
            pod = {"metadata": {"name": name, "resourceVersion": "5"}, "data": data}
            await response.write(json.dumps({"type": "ADDED", "object": pod}).encode() + b"\n")
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    async with served(watch) as url, connected(ApiServerEndpoint(url=url)) as transport:
        events = KubeClient(transport).watch(PODS, resource_version="1")
        seen: list[Any] = []
        async for event in events:
            seen.append(event.object)
            if len(seen) == 2:
                break
        await events.aclose()
        async with asyncio.timeout(5):
            await left.wait()
    assert [len(pod["data"]) for pod in seen] == [1, 2_000_000]


@pytest.fixture(scope="module")
def server_pair() -> Pair:
    return make_pair("kubernetes")


@pytest.fixture(scope="module")
def client_pair() -> Pair:
    return make_pair("somebody")


@asynccontextmanager
async def served_securely(pair: Pair, client: Pair, folder: Path) -> AsyncIterator[str]:
    for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_bytes(content)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client.certificate.decode())
    async with served(echo, context) as url:
        yield url


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    file = folder / "kubeconfig"
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def test_a_client_certificate_and_a_known_authority_let_us_in(
    tmp_path: Path, server_pair: Pair, client_pair: Pair
) -> None:
    user = {"client-certificate-data": encoded(client_pair.certificate), "client-key-data": encoded(client_pair.key)}
    async with served_securely(server_pair, client_pair, tmp_path) as url:
        cluster = {"server": url, "certificate-authority": "tls.crt"}
        endpoint = find_endpoint(kubeconfig(tmp_path, cluster, user))
        async with connected(endpoint) as transport:
            seen = json.loads((await transport.send(Request(method="GET", path="/"))).body)
    assert seen["peercert"]


async def test_an_unknown_authority_is_refused_unless_told_otherwise(
    tmp_path: Path, server_pair: Pair, client_pair: Pair
) -> None:
    async with served_securely(server_pair, client_pair, tmp_path) as url:
        strange = find_endpoint(kubeconfig(tmp_path, {"server": url}, {"token": "t"}))
        async with connected(strange) as transport:
            with pytest.raises(Unreachable, match=r"certificate is not trusted: self-signed certificate$"):
                await transport.send(Request(method="GET", path="/"))
        careless = {"server": url, "insecure-skip-tls-verify": True}
        async with connected(find_endpoint(kubeconfig(tmp_path, careless, {}))) as transport:
            assert (await transport.send(Request(method="GET", path="/"))).status == 200


async def test_a_server_may_be_known_by_another_name(tmp_path: Path, server_pair: Pair, client_pair: Pair) -> None:
    async with served_securely(server_pair, client_pair, tmp_path) as url:
        known = {"server": url, "certificate-authority-data": encoded(server_pair.certificate)}
        for name, accepted in (("kubernetes", True), ("elsewhere", False)):
            named = kubeconfig(tmp_path, {**known, "tls-server-name": name}, {})
            async with connected(find_endpoint(named)) as transport:
                if accepted:
                    assert (await transport.send(Request(method="GET", path="/"))).status == 200
                else:
                    with pytest.raises(Unreachable, match="elsewhere"):
                        await transport.send(Request(method="GET", path="/"))


async def test_a_new_client_certificate_is_shown_on_a_new_connection(
    tmp_path: Path, server_pair: Pair, client_pair: Pair
) -> None:
    certificate = Credential(certificate=ClientCertificate(*client_pair))
    login = Rotating(Credential(), certificate)
    async with served_securely(server_pair, client_pair, tmp_path) as url:
        endpoint = ApiServerEndpoint(url=url, tls=TlsConfig(ca_data=server_pair.certificate), credentials=login)
        async with connected(endpoint) as transport:
            seen = []
            for _ in range(4):
                answer = json.loads((await transport.send(Request(method="GET", path="/"))).body)
                seen.append((answer["peercert"], answer["peer"]))
                if len(seen) == 2:
                    login.credentials.pop(0)
    assert [shown for shown, _ in seen] == [False, False, True, True]
    assert len({peer for _, peer in seen}) == 2
