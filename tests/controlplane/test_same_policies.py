"""ValidatingAdmissionPolicies are accepted, refused and evaluated alike by both servers, with the same messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client_config import create_transport
from pliant.kube.transport.base import Transport
from pliant.runtime.clock import SystemClock
from tests.cel.policy_cases import BINDINGS, CASES, NAMESPACE, POLICIES, Case, binding, config_map, constraints, policy
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.test_same_rules import Pair, call, report

pytestmark = pytest.mark.real

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MARKERS = "policy-markers"
"""The namespace of a policy that is changed after other changes: servers read policies in the order of writes."""


@pytest.fixture
async def servers(plane: ControlPlane) -> AsyncIterator[Pair]:
    """The real server and an embedded one."""
    real = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            yield real, InProcessTransport(api)
    finally:
        await real.aclose()


def comparable(status: int, body: Any) -> object:
    if status < 400:
        return status
    details = body.get("details") or {}
    given = details.get("causes") or ()
    causes = sorted((str(cause.get("field")), str(cause.get("reason")), str(cause["message"])) for cause in given)
    has_fields = any(cause.get("field") for cause in given)
    return [status, body["reason"], "" if has_fields else body["message"], details.get("name"), causes]


async def ask(servers: Pair, path: str, body: Any) -> tuple[object, object]:
    """Create an object in a dry run on both servers."""
    real, embedded = [comparable(*await call(server, "POST", path, body, dryRun="All")) for server in servers]
    return real, embedded


async def test_policies_and_bindings_are_refused_alike(servers: Pair) -> None:
    differing = {}
    requests = [(f"{GROUP}/validatingadmissionpolicies", policy(spec)) for spec in POLICIES]
    requests += [(f"{GROUP}/validatingadmissionpolicybindings", binding(spec)) for spec in BINDINGS]
    for path, body in requests:
        real, embedded = await ask(servers, path, body)
        if real != embedded:
            differing[str(body["spec"])] = (real, embedded)
    assert not differing, report(differing)


async def test_policies_are_evaluated_alike(servers: Pair) -> None:
    for server in servers:
        await call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        parameters = config_map({"p": "1"}, "params", a="z")
        await call(server, "POST", "/api/v1/namespaces/default/configmaps", parameters)
    differing: dict[str, Any] = {}
    await add_marker(servers)
    for number, case in enumerate(CASES):
        await apply(servers, case)
        await wait_read(servers, f"marker-{number}")
        for body in case.objects:
            real, embedded = await ask(servers, MAPS, body)
            if real != embedded:
                differing[f"{case} {body}"] = (real, embedded)
    await remove(servers)
    assert not differing, report(differing)


async def add_marker(servers: Pair) -> None:
    """Create a policy that denies the creation of the ConfigMap `marker` in a namespace of its own."""
    for server in servers:
        await call(server, "POST", "/api/v1/namespaces", {"metadata": {"name": MARKERS}})
        selector = {"matchLabels": {"kubernetes.io/metadata.name": MARKERS}}
        spec = {
            **marker_spec("marker"),
            "matchConstraints": {**constraints("configmaps"), "namespaceSelector": selector},
        }
        for plural, body in (("policies", policy(spec)), ("policybindings", binding({"policyName": "marker"}))):
            body["metadata"]["name"] = "marker"
            assert (await call(server, "POST", f"{GROUP}/validatingadmission{plural}", body))[0] == 201


def marker_spec(name: str) -> dict[str, Any]:
    return {"validations": [{"expression": f"object.metadata.name != '{name}'"}]}


async def wait_read(servers: Pair, marker: str) -> None:
    """Wait until both servers evaluate what was written before."""
    for server in servers:
        path = f"{GROUP}/validatingadmissionpolicies/marker"
        patch = [{"op": "replace", "path": "/spec/validations", "value": marker_spec(marker)["validations"]}]
        assert (await call(server, "PATCH", path, patch))[0] == 200
        async with asyncio.timeout(30):
            while not await is_denied(server, marker):  # noqa: ASYNC110 - servers do not tell what they have read
                await asyncio.sleep(0.1)


async def is_denied(server: Transport, marker: str) -> bool:
    path = f"/api/v1/namespaces/{MARKERS}/configmaps"
    return (await call(server, "POST", path, config_map(name=marker), dryRun="All"))[0] == 422


async def apply(servers: Pair, case: Case) -> None:
    """Replace policy and binding."""
    await remove(servers)
    for server in servers:
        for plural, body in (("policies", policy(case.policy)), ("policybindings", binding(case.binding))):
            status, answer = await call(server, "POST", f"{GROUP}/validatingadmission{plural}", body)
            assert status == 201, answer


async def remove(servers: Pair) -> None:
    for server in servers:
        await call(server, "DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
        await call(server, "DELETE", f"{GROUP}/validatingadmissionpolicies/p")
