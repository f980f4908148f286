"""The embedded server answers as the real one does, but for what is listed here and in docs/embedded.md."""

from __future__ import annotations

import pytest

from pliant.cli.cluster.apply import install_crds
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import SERVICE_ACCOUNTS
from pliant.kube.transport.base import Transport
from pliant.runtime.clock import SystemClock
from tests.controlplane.budgets import budget_exchanges
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.comparison import Conversation
from tests.controlplane.debugging import debug_exchanges
from tests.controlplane.exchange import SPACE
from tests.controlplane.importance import priority_exchanges
from tests.controlplane.kinds import kind_exchanges
from tests.controlplane.lives import lifecycle_exchanges
from tests.controlplane.verbs import verb_exchanges
from tests.controlplane.workloads import workload_exchanges

pytestmark = pytest.mark.real

KNOWN = {
    "create with a version": "the real one says 500 where the client is at fault; we say 400",
    "create with a wrong type": "we name the field (422), the real one cannot read the body (400)",
    "create a pod with a bad quantity": "as above",
    "merge a wrong type": "we name the field, the real one repeats the whole object",
    "merge an unknown field": "we name the field (400), the real one repeats the whole object (422)",
    "replace another's uid": "the real one speaks of its storage",
    "watch from nonsense": "the real one says 500 where the client is at fault; we say 400",
    "delete by a wrong uid": "the real one says the kind where it elsewhere says the resource",
    "delete by an old version": "as above",
    "create a pod of twins": "we name the container, the real one its name",
    "create a service with a bad port": "we complain of a port once",
    "create a service with a bad name": "servers before 1.36 refuse it, so we do",
    "replace a job without a version": "the real one says the resource where it elsewhere says the kind",
    "resize below nothing": "the real one names the field behind the size, twice",
    "an unknown path": "we say so in a Status, the real one in plain text",
    "an unknown group": "as above",
    "an unknown version": "as above",
}


async def test_both_servers_answer_alike(plane: ControlPlane) -> None:
    transport = create_transport(plane.kubeconfig, None, SystemClock().now)
    try:
        async with ApiServer.start(Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock()) as api:
            differing = await differences(transport, InProcessTransport(api))
    finally:
        await transport.aclose()
    news = {title: answers for title, answers in differing.items() if title not in KNOWN}
    assert not news, "\n".join(f"{title}\n  real     {real}\n  embedded {ours}" for title, (real, ours) in news.items())
    assert KNOWN.keys() <= differing.keys(), f"these agree by now: {KNOWN.keys() - differing.keys()}"


async def differences(real: Transport, embedded: Transport) -> dict[str, tuple[object, object]]:
    """What both said to each question they disagree on."""
    for transport in (real, embedded):
        await install_crds(KubeClient(transport))
    there, here = Conversation(real), Conversation(embedded)
    found = {}
    for exchange in (
        *verb_exchanges(),
        *kind_exchanges(),
        *priority_exchanges(),
        *budget_exchanges(),
        *lifecycle_exchanges(),
        *workload_exchanges(),
        *debug_exchanges(),
    ):
        answers = await there.answer(exchange), await here.answer(exchange)
        if answers[0] != answers[1]:
            found[exchange.title] = answers
        if exchange.path == "/api/v1/namespaces":
            await wait_service_account(KubeClient(real))
    return found


async def wait_service_account(client: KubeClient) -> None:
    """Before the controllers have been to a namespace, no pod is admitted to it."""
    async for change in client.watch(SERVICE_ACCOUNTS, SPACE, resource_version="0", fields="metadata.name=default"):
        if change.object is not None:
            return
