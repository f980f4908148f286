"""kube-apiserver answers requests to namespaces with quotas as recorded, and the embedded server answers the same."""

from __future__ import annotations

import pytest

from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client_config import create_transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.quota_answers import answer_case, recorded_answers
from tests.controlplane.quota_cases import CASES

pytestmark = pytest.mark.real


async def test_both_servers_enforce_quotas_as_recorded(plane: ControlPlane) -> None:
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            for number, case in enumerate(CASES):
                recorded = recorded_answers(case)
                for server in (transport, InProcessTransport(api)):
                    assert await answer_case(server, case, f"quotas-{number}") == recorded, case.title
    finally:
        await transport.aclose()
