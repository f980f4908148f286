"""Pods ask a resolver of the cluster's own, over datagrams and connections, and wait for nothing."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.network.dns_message import (
    MalformedDnsMessage,
    RecordType,
    ResponseCode,
    address_record,
    encode_response,
    parse_addresses,
    parse_query,
)
from pliant.embedded.network.dns_message import encode_query as asked_for
from pliant.embedded.network.dns_upstream import UpstreamResolver
from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.embedded.network.service_discovery import render_hosts_file, render_resolv_conf
from pliant.kube.resources import SERVICES
from tests.node.running import Running, is_running, running

LOOKUP = "import socket, sys; print(*sorted({each[4][0] for each in socket.getaddrinfo(sys.argv[1], None)}))"


def question(name: str, kind: RecordType = RecordType.A) -> bytes:
    return asked_for(7, name, kind)


def test_a_question_is_read_and_answered() -> None:
    asked = parse_query(question("Web.Default.svc"))
    assert (asked.name, asked.record_type) == ("web.default.svc", RecordType.A)
    told = encode_response(asked, [address_record("10.96.0.10")])
    assert struct.unpack_from("!HHHHHH", told) == (7, 0x8580, 1, 1, 0, 0)
    assert told.endswith(bytes([10, 96, 0, 10]))


def test_an_answer_that_is_too_long_asks_to_be_asked_for_over_a_connection() -> None:
    asked = parse_query(question("many"))
    records = [address_record("10.88.0.2")] * 100
    assert struct.unpack_from("!HHHHHH", encode_response(asked, records, max_size=asked.max_response_size))[1:4] == (
        0x8780,
        1,
        0,
    )
    assert struct.unpack_from("!HHHHHH", encode_response(asked, records))[1:4] == (0x8580, 1, 100)


@pytest.mark.parametrize("message", [b"", b"x" * 12, question("a")[:-3], question("a")[:2] + b"\x80" + b"\0" * 40])
def test_what_is_no_question_is_not_read(message: bytes) -> None:
    with pytest.raises(MalformedDnsMessage):
        parse_query(message)


@given(st.binary(max_size=80))
def test_no_message_is_too_strange_to_be_refused(message: bytes) -> None:
    for each in (message, question("web.default")[: len(message)] + message, question("web.default") + message):
        try:
            asked = parse_query(each)
        except MalformedDnsMessage:
            continue
        assert struct.unpack_from("!H", encode_response(asked, ()))[0] == asked.message_id


def test_a_pod_is_told_whom_to_ask_as_its_policy_says() -> None:
    pod: dict[str, Any] = {"metadata": {"namespace": "team"}, "spec": {}}
    usual = "nameserver 10.88.0.1\nsearch team.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"
    assert render_resolv_conf(pod, "10.88.0.1") == usual
    pod["spec"] = {"dnsConfig": {"searches": ["corp"], "options": [{"name": "ndots", "value": "2"}, {"name": "debug"}]}}
    told = render_resolv_conf(pod, "10.88.0.1")
    assert told.endswith("cluster.local corp\noptions ndots:2 debug\n")
    pod["spec"] = {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.88.0.9"]}}
    assert render_resolv_conf(pod, "10.88.0.1") == "nameserver 10.88.0.9\n"
    pod["spec"] = {"dnsPolicy": "Default"}
    assert render_resolv_conf(pod, "10.88.0.1") == "nameserver 10.88.0.1\n"


def test_a_pod_knows_itself_and_its_aliases() -> None:
    spec = {"subdomain": "ring", "hostAliases": [{"ip": "10.1.2.3", "hostnames": ["a", "b.c"]}]}
    told = render_hosts_file({"metadata": {"namespace": "team"}, "spec": spec}, "w-0", "10.88.0.2")
    assert "10.88.0.2\tw-0.ring.team.svc.cluster.local w-0\n" in told
    assert told.endswith("10.1.2.3\ta b.c\n")


async def test_resolvers_outside_are_asked_in_turn() -> None:
    async with _resolver("10.1.2.3") as port:
        upstream = UpstreamResolver(("127.0.0.1",), port)
        told = await upstream.query(question("example.com"), over_tcp=False)
        assert told is not None
        assert told.endswith(bytes([10, 1, 2, 3]))
        nobody = UpstreamResolver(("127.0.0.2",), port)
        assert await nobody.query(question("example.com"), over_tcp=True) is None


async def test_names_outside_are_looked_up_without_waiting_for_anybody_else() -> None:
    async with _resolver("10.1.2.3") as port:
        assert await UpstreamResolver(("127.0.0.1",), port).resolve_addresses("example.com") == ["10.1.2.3"]
        assert await UpstreamResolver(("127.0.0.1",), port).resolve_addresses("x" * 70 + ".com") == []
    assert await UpstreamResolver(()).resolve_addresses("example.com") == []


def test_addresses_are_found_behind_other_names() -> None:
    header = struct.pack("!HHHHHH", 7, 0x8180, 1, 3, 0, 0)
    asked = question("example.com")[12:]
    alias = b"\xc0\x0c" + struct.pack("!HHIH", RecordType.CNAME, 1, 9, 6) + b"\x03www\xc0\x0c"
    old = b"\x03www\xc0\x0c" + struct.pack("!HHIH", RecordType.A, 1, 9, 4) + bytes([10, 1, 2, 3])
    new = b"\xc0\x29" + struct.pack("!HHIH", RecordType.AAAA, 1, 9, 16) + bytes(15) + b"\x01"
    assert parse_addresses(header + asked + alias + old + new) == ["10.1.2.3", "::1"]
    with pytest.raises(MalformedDnsMessage):
        parse_addresses(header + asked + alias)


def test_the_resolvers_of_this_machine_are_read(tmp_path: Path) -> None:
    (tmp_path / "resolv.conf").write_text("# of this machine\nsearch corp\nnameserver 192.0.2.1\nnameserver ::1\n")
    assert UpstreamResolver.from_host(tmp_path / "resolv.conf")._servers == ("192.0.2.1", "::1")
    assert not UpstreamResolver.from_host(tmp_path / "missing").has_servers


async def test_pods_find_services_hosts_and_ports_as_soon_as_they_are_there(tmp_path: Path) -> None:
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        await service(cluster, "ring", {"app": "ring"}, clusterIP="None")
        await service(cluster, "web", {"app": "web"})
        pod = await cluster.sh("one", "sleep 60", labels={"app": "ring"}, hostname="first", subdomain="ring")
        pod = await cluster.until("one", is_running)
        address = pod["status"]["podIP"]
        lookups = [
            "ring",
            "ring.default",
            "first.ring.default.svc.cluster.local",
            "web.default.svc",
            "kubernetes.default",
        ]
        asked = "; ".join(f"python3 -c '{LOOKUP}' {name}" for name in lookups)
        told = (await cluster.ran("asker", asked)).splitlines()
        web = (await cluster.client.get(SERVICES, "default", "web"))["spec"]["clusterIP"]
        assert told == [address, address, address, web, "10.96.0.1"]


async def test_unknown_names_fail_at_once_and_aliases_are_known(tmp_path: Path) -> None:
    script = (
        "import socket, time\n"
        "for name in ('nobody', 'nobody.default', 'nobody.default.svc.cluster.local', 'example.com'):\n"
        "    began = time.monotonic()\n"
        "    try: socket.getaddrinfo(name, None)\n"
        "    except socket.gaierror as problem: print(name, problem.errno, time.monotonic() - began < 1)\n"
        "print(socket.gethostbyname('alias'), socket.gethostbyname(socket.gethostname()))"
    )
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        aliases = [{"ip": "10.9.9.9", "hostnames": ["alias"]}]
        command = ["python3", "-c", script]
        await cluster.pod("a", [{"name": "main", "command": command}], hostAliases=aliases)
        pod = await cluster.finished("a")
        *unknown, known = (await cluster.output("a")).splitlines()
        assert {line.split(" ", 1)[1] for line in unknown} == {"-2 True"}
        assert len(unknown) == 4
        assert known == f"10.9.9.9 {pod['status']['podIP']}"


async def test_a_service_with_many_pods_is_answered_over_a_connection(tmp_path: Path) -> None:
    count = 40
    async with running(tmp_path, egress=EgressPolicy(allow_external=False)) as cluster:
        await service(cluster, "many", {"app": "many"}, clusterIP="None", publishNotReadyAddresses=True)
        for number in range(count):
            await cluster.sh(f"pod-{number}", "sleep 60", labels={"app": "many"})
        for number in range(count):
            await cluster.until(f"pod-{number}", is_running)
        told = await cluster.ran("asker", f"python3 -c '{LOOKUP}' many")
        assert len(told.split()) == count


async def service(cluster: Running, name: str, selector: dict[str, str], **spec: Any) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": selector, "ports": [{"name": "main", "port": 80}], **spec},
    }
    await cluster.client.create(SERVICES, "default", body)


@asynccontextmanager
async def _resolver(address: str) -> AsyncIterator[int]:
    """Somebody who answers every question with one address."""

    class Answers(asyncio.DatagramProtocol):
        transport: Any = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.transport.sendto(
                encode_response(parse_query(data), [address_record(address)], ResponseCode.NO_ERROR), addr
            )

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Answers, local_addr=("127.0.0.1", 0))
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()
