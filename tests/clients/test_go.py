"""Programs with client-go and controller-runtime: tests/clients/go."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.protobuf.decoder import decode_protobuf
from pliant.embedded.apiserver.protobuf.descriptors import find_kind
from pliant.embedded.apiserver.protobuf.encoder import encode_protobuf
from pliant.embedded.registry.unsupported_kinds import unsupported_kinds
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import Resource
from pliant.runtime.clock import SystemClock
from tests.clients.go_programs import require_program
from tests.clients.objects import OBJECTS
from tests.clients.results import ClientResults
from tests.depth import IS_DEEP, SEED
from tests.scenarios.cluster import Site

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
DURATION = "60s" if IS_DEEP else "5s"
LIMIT_SECONDS = 240
FILLED_OBJECTS = 20 if IS_DEEP else 3
WITHOUT_OBJECTS = {
    "metrics.k8s.io/v1beta1 PodMetrics",
    *(f"{each.api_version} {each.kind}" for each in unsupported_kinds()),
}
SHUTDOWN = "Stopping and waiting for"
"""After this, the log of a manager contains requests that it has interrupted itself."""


class Line(msgspec.Struct, rename={"api_version": "apiVersion"}):
    """An object in both representations, as the program roundtrip writes and reads it."""

    api_version: str
    kind: str
    json: bytes
    protobuf: bytes


def run_program(program: str, *words: str, site: Site | None = None, stdin: bytes = b"") -> str:
    """Run a program in Go to its end; return its output, and fail if it or its log contains an error."""
    environ = {**os.environ, "KUBECONFIG": str(site.kubeconfig if site is not None else "")}
    command = [str(require_program(program)), *words]
    ran = subprocess.run(command, env=environ, input=stdin, capture_output=True, timeout=LIMIT_SECONDS, check=False)
    output, log = ran.stdout.decode(), ran.stderr.decode()
    assert ran.returncode == 0, output[-5000:] + log[-5000:]
    lines = re.findall(r"^[EF]\d{4} .*|^W.*(?:watch|reflector).*|^panic.*", log.partition(SHUTDOWN)[0], re.MULTILINE)
    # Only the program itself cancels requests: the log of a manager may say so before it announces its shutdown.
    errors = [line for line in lines if "context canceled" not in line]
    assert errors == [], "\n".join(errors)
    return output


def record_checks(results: ClientResults, client: str, output: str) -> None:
    for check in re.findall(r"^ok (.*)$", output, re.MULTILINE):
        results.record(client, check)


@pytest.mark.parametrize(
    ("client", "options"),
    [
        ("client-go 0.36.3", ()),
        ("client-go, JSON only", (f"-content-type={JSON}", f"-accept={JSON}")),
        ("client-go, protobuf only", (f"-content-type={PROTOBUF}", f"-accept={PROTOBUF}")),
    ],
)
def test_a_program_with_client_go_works(
    site: Site, client_results: ClientResults, client: str, options: tuple[str, ...]
) -> None:
    output = run_program("clientset", f"-duration={DURATION}", *options, site=site)
    record_checks(client_results, client, output)


@pytest.mark.parametrize(
    ("client", "options"),
    [("controller-runtime 0.24.1", ()), ("controller-runtime, protobuf only", ("-only-protobuf",))],
)
def test_a_manager_of_controller_runtime_works(
    site: Site, client_results: ClientResults, client: str, options: tuple[str, ...]
) -> None:
    output = run_program("manager", f"-duration={DURATION}", *options, site=site)
    record_checks(client_results, client, output)


async def test_every_kind_is_the_same_in_json_and_in_protobuf(site: Site, client_results: ClientResults) -> None:
    transport = create_transport(site.kubeconfig, None, SystemClock().now)
    client = KubeClient(transport)
    created: list[tuple[Resource, dict[str, Any]]] = []
    try:
        for resource, namespace, manifest in OBJECTS:
            created.append((resource, await client.create(resource, namespace, manifest, strict=True)))
        output = run_program("roundtrip", "served", site=site)
    finally:
        for resource, obj in created:
            await client.delete(resource, obj["metadata"].get("namespace"), obj["metadata"]["name"])
        await transport.aclose()
    counts = {kind: int(count) for kind, count in re.findall(r"^ok (\S+ \S+): (\d+) objects$", output, re.MULTILINE)}
    empty = {kind for kind, count in counts.items() if not count and has_message(kind)}
    assert empty == WITHOUT_OBJECTS
    client_results.record("client-go 0.36.3", "every kind is the same in JSON and protobuf")


def has_message(kind: str) -> bool:
    return find_kind(*kind.split()) is not None


def filled_lines() -> list[Line]:
    """Return objects that Go has filled at random, of all kinds of which the server has the messages."""
    output = run_program("roundtrip", f"-seed={SEED}", f"-count={FILLED_OBJECTS}", "fill")
    lines = [msgspec.json.decode(line, type=Line) for line in output.splitlines()]
    return [line for line in lines if find_kind(line.api_version, line.kind) is not None]


def without_empty_values(value: Any) -> Any:
    """Remove nulls and empty values: Go writes some, others it omits."""
    if isinstance(value, dict):
        items = {name: without_empty_values(each) for name, each in value.items()}
        return {name: each for name, each in items.items() if each not in (None, "", [], {})}
    return [without_empty_values(each) for each in value] if isinstance(value, list) else value


def test_go_and_the_server_read_what_the_other_writes() -> None:
    lines = filled_lines()
    assert len({(line.api_version, line.kind) for line in lines}) > 80
    for line in lines:
        decoded = decode_protobuf(line.protobuf)
        assert without_empty_values(decoded) == without_empty_values(msgspec.json.decode(line.json)), line.kind
        line.protobuf = encode_protobuf(msgspec.json.decode(line.json))
    output = run_program("roundtrip", "compare", stdin=b"\n".join(map(msgspec.json.encode, lines)))
    assert output == f"{len(lines)} objects compared, 0 differ\n"
