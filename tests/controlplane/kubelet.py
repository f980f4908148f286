"""A node for a real control plane: the embedded cluster's kubelet, with real processes in real networks.

Run as a program of its own, `python -m tests.controlplane.kubelet FOLDER`, by the control plane in that folder.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from pathlib import Path

from aiohttp import web

from pliant.embedded.apiserver.http.https_server import bind_loopback_socket
from pliant.embedded.apiserver.streaming.logs import LogOptions
from pliant.embedded.controllers.node_lifecycle import replace_registered_nodes, resolve_node_capacity
from pliant.embedded.kubelet.kubelet import Kubelet
from pliant.embedded.kubelet.logs.pod_logs import FileWatcher, PodLogStore
from pliant.embedded.kubelet.pods.context import KubeletDependencies
from pliant.embedded.kubelet.pods.event_recorder import PodEventRecorder
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.embedded.kubelet.volumes.pod_filesystem import PodFilesystem
from pliant.embedded.network.egress_connector import EgressPolicy
from pliant.embedded.network.modes import NetworkContext, PrivateNetworkMode
from pliant.embedded.network.service_index import ServiceIndex
from pliant.embedded.object_views import PodView, ServiceView
from pliant.errors import ApiError
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.client_config import create_transport
from pliant.kube.resources import NODES, PODS, SERVICES
from pliant.runtime.clock import SystemClock

NODE = "node-0"
READY = "the node is ready"
"""What the program writes when pods can come."""
_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
"""What containers find, whatever the environment of the tests."""


class LogServer:
    """Answers the API server when somebody asks for the log of a pod."""

    def __init__(self, client: KubeClient, logs: PodLogStore) -> None:
        self._client = client
        self._logs = logs

    @asynccontextmanager
    async def serving(self, folder: Path) -> AsyncIterator[int]:
        """Listen, to the holder of the API server's certificate alone; the port."""
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._answer)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / "server.crt", folder / "server.key")
        await runner.setup()
        try:
            listener = bind_loopback_socket(0)
            await web.SockSite(runner, listener, ssl_context=context).start()
            yield int(listener.getsockname()[1])
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        wanted, asked = request.match_info, request.query
        options = LogOptions(
            follow=asked.get("follow") == "true",
            previous=asked.get("previous") == "true",
            tail_lines=int(asked["tailLines"]) if "tailLines" in asked else None,
            limit_bytes=int(asked["limitBytes"]) if "limitBytes" in asked else None,
        )
        reply = web.StreamResponse()
        try:
            pod = await self._client.get(PODS, wanted["namespace"], wanted["pod"])
            chunks = self._logs.read_container_log(pod, wanted["container"], options)
            first = await anext(chunks, b"")
        except ApiError as problem:
            raise web.HTTPBadRequest(text=str(problem)) from problem
        await reply.prepare(request)
        await reply.write(first)
        async for chunk in chunks:
            await reply.write(chunk)
        return reply


async def serve(folder: Path) -> None:
    """Be a node until cancelled."""
    data, clock = folder / "node", SystemClock()
    data.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        transport = create_transport(folder / "kubeconfig", None, clock.now)
        await stack.enter_async_context(aclosing(transport))
        client = KubeClient(transport)
        agent = await stack.enter_async_context(NodeAgentClient.start(AgentOptions(data_dir=data)))
        logs = PodLogStore(data / "pods", stack.enter_context(closing(FileWatcher())))
        names = ServiceIndex()
        egress = EgressPolicy(allow_external=False)
        context = NetworkContext(data_dir=data, api_url="", service_index=names, egress=egress)
        network = PrivateNetworkMode(agent).serve_pod_network(context)
        locality = await stack.enter_async_context(network)
        furnishing = PodFilesystem(data_dir=data, default_working_dir=data, base_env=_VARIABLES, pod_network=locality)
        port = await stack.enter_async_context(LogServer(client, logs).serving(folder))
        services = KubeletDependencies(
            client=client,
            clock=clock,
            agent=agent,
            filesystem=furnishing,
            logs=logs,
            events=PodEventRecorder(client, clock, "kubelet"),
        )
        has = resolve_node_capacity(cpu=None, memory=None, gpu=0)
        kubelet = Kubelet(services, {NODE: has})

        def pod_changed(old: PodView | None, new: PodView | None) -> None:
            names.on_pod_change(old, new)
            kubelet.on_pod_change(old, new)

        pods = Informer(client, PODS, PodView, on_change=pod_changed)
        named = Informer(client, SERVICES, ServiceView, on_change=names.on_service_change)
        async with asyncio.TaskGroup() as tasks:
            for work in (kubelet.run(), agent.raise_when_lost(), pods.run(), named.run()):
                tasks.create_task(work)
            await replace_registered_nodes(client, {NODE: has}, agent.gateway_address, clock.now())
            here = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            await client.patch(NODES, None, NODE, {"status": here}, subresource="status")
            await pods.wait_synced()
            await named.wait_synced()
            print(READY, flush=True)


async def _run_until_signal() -> None:
    work = asyncio.create_task(serve(Path(sys.argv[1])))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    await asyncio.wait([work])
    if not work.cancelled():
        work.result()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_run_until_signal())
