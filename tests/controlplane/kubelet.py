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

from pliant.embedded.machines import capacity, register
from pliant.embedded.names import Names
from pliant.embedded.network.routes import Egress
from pliant.embedded.network.serving import private_network
from pliant.embedded.node.furnishing import Furnishing
from pliant.embedded.node.inotify import FileWatch
from pliant.embedded.node.kubelet import Kubelet
from pliant.embedded.node.link import Launch, NodeAgent
from pliant.embedded.node.podevents import PodEvents
from pliant.embedded.node.podlogs import PodLogs
from pliant.embedded.node.podscope import NodeServices
from pliant.embedded.server.http import loopback_socket
from pliant.embedded.server.logs import LogOptions
from pliant.embedded.views import PodView, ServiceView
from pliant.errors import ApiError
from pliant.kube.client import KubeClient
from pliant.kube.config import transport_for
from pliant.kube.informer import Informer
from pliant.kube.resources import NODES, PODS, SERVICES
from pliant.runtime.clock import SystemClock

NODE = "node-0"
READY = "the node is ready"
"""What the program writes when pods can come."""
_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8"}
"""What containers find, whatever the environment of the tests."""


class LogServer:
    """Answers the API server when somebody asks for the log of a pod."""

    def __init__(self, client: KubeClient, logs: PodLogs) -> None:
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
            listener = loopback_socket(0)
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
            chunks = self._logs.read(pod, wanted["container"], options)
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
        transport = transport_for(folder / "kubeconfig", None, clock.now)
        await stack.enter_async_context(aclosing(transport))
        client = KubeClient(transport)
        agent = await stack.enter_async_context(NodeAgent.started(Launch(data=data)))
        logs = PodLogs(data / "pods", stack.enter_context(closing(FileWatch())))
        names = Names()
        network = private_network(agent, names, Egress(outside=False), data)
        locality = await stack.enter_async_context(network)
        furnishing = Furnishing(data=data, workspace=data, base=_VARIABLES, locality=locality)
        port = await stack.enter_async_context(LogServer(client, logs).serving(folder))
        services = NodeServices(
            client=client,
            clock=clock,
            agent=agent,
            furnishing=furnishing,
            logs=logs,
            events=PodEvents(client, clock, "kubelet"),
        )
        has = capacity(cpu=None, memory=None, gpu=0)
        kubelet = Kubelet(services, {NODE: has})

        def pod_changed(old: PodView | None, new: PodView | None) -> None:
            names.pod_changed(old, new)
            kubelet.pod_changed(old, new)

        pods = Informer(client, PODS, PodView, on_change=pod_changed)
        named = Informer(client, SERVICES, ServiceView, on_change=names.service_changed)
        async with asyncio.TaskGroup() as tasks:
            for work in (kubelet.run(), agent.wait_lost(), pods.run(), named.run()):
                tasks.create_task(work)
            await register(client, {NODE: has}, agent.address, clock.now())
            here = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            await client.patch(NODES, None, NODE, {"status": here}, subresource="status")
            await pods.wait_synced()
            await named.wait_synced()
            print(READY, flush=True)


async def _until_told() -> None:
    work = asyncio.create_task(serve(Path(sys.argv[1])))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    await asyncio.wait([work])
    if not work.cancelled():
        work.result()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_until_told())
