"""A cluster whose pods are real processes, and short ways to use it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.embedded.network.modes import NetworkModeChoice
from pliant.kube.client import KubeClient
from pliant.kube.codec import WatchEventType
from pliant.kube.resources import EVENTS, PODS, Resource

NETWORK: NetworkModeChoice = "private"
"""Whose network the pods of clusters get at the moment."""

ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
Pod = dict[str, Any]
Wanted = Callable[[Pod], bool]


class Running:
    """A started cluster and a client of it."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.client = KubeClient(cluster.transport)

    async def sh(self, name: str, script: str, **spec: Any) -> Pod:
        """Create a pod that runs a shell script and is not restarted."""
        return await self.pod(name, [{"name": "main", "command": ["sh", "-ec", script]}], **spec)

    async def pod(self, name: str, containers: list[Any], *, labels: dict[str, str] | None = None, **spec: Any) -> Pod:
        """Create a pod."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "containers": [{"image": "none", **each} for each in containers],
                **spec,
            },
        }
        return await self.client.create(PODS, "default", body)

    async def grant(self, account: str, role: str) -> None:
        """Let a service account do what a cluster role allows in the namespace."""
        body = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{account}-{role}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        }
        await self.client.create(ROLE_BINDINGS, "default", body)

    async def until(self, name: str, wanted: Wanted, *, within: float = 40) -> Pod:
        """The pod as soon as it is as wanted."""
        async with asyncio.timeout(within), aclosing(self.changes(name)) as changes:
            async for pod in changes:
                if pod is not None and wanted(pod):
                    return pod
        raise AssertionError("a watch ended")

    async def until_gone(self, name: str, *, within: float = 40) -> None:
        """Return when the pod's object is no more."""
        async with asyncio.timeout(within), aclosing(self.changes(name)) as changes:
            async for pod in changes:
                if pod is None:
                    return

    async def changes(self, name: str) -> AsyncGenerator[Pod | None, None]:
        """The pod now and after each change; None when it is gone."""
        listing = await self.client.list(PODS, "default", fields=f"metadata.name={name}")
        if not listing.items:
            yield None
        for pod in listing.items:
            yield pod
        watch = self.client.watch(
            PODS, "default", resource_version=listing.resource_version, fields=f"metadata.name={name}"
        )
        async with aclosing(watch):
            async for event in watch:
                if event.object is not None:
                    yield None if event.type is WatchEventType.DELETED else event.object

    async def finished(self, name: str) -> Pod:
        """The pod when it has ended."""
        return await self.until(name, lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"))

    async def output(self, name: str, **options: Any) -> str:
        """What a pod wrote."""
        return b"".join([chunk async for chunk in self.client.stream_logs("default", name, **options)]).decode()

    async def until_said(self, name: str, words: str) -> None:
        """Return when a pod has written some words."""
        await self.until(name, is_running)
        heard = b""
        async with asyncio.timeout(10), aclosing(self.client.stream_logs("default", name, follow=True)) as chunks:
            async for chunk in chunks:
                heard += chunk
                if words.encode() in heard:
                    return
        raise AssertionError(f"{name} never said {words!r} but {heard!r}")

    async def ran(self, name: str, script: str, **spec: Any) -> str:
        """What a shell script writes in a pod of its own; it must succeed."""
        await self.sh(name, script, **spec)
        pod = await self.finished(name)
        printed = await self.output(name)
        assert pod["status"]["phase"] == "Succeeded", printed
        return printed.strip()

    async def warned(self, name: str) -> tuple[str, str]:
        """Reason and message of the first event about a pod, as soon as there is one."""
        about = f"involvedObject.name={name}"
        async with asyncio.timeout(10):
            listing = await self.client.list(EVENTS, "default", fields=about)
            if not listing.items:
                watch = self.client.watch(EVENTS, "default", resource_version=listing.resource_version, fields=about)
                async with aclosing(watch):
                    await anext(watch)
        return (await self.warnings(name))[0]

    async def warnings(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the events about a pod."""
        events = (await self.client.list(EVENTS, "default", fields=f"involvedObject.name={name}")).items
        return [(each["reason"], each["message"]) for each in events]


@asynccontextmanager
async def running(data: Path, workspace: Path | None = None, **options: Any) -> AsyncIterator[Running]:
    """A cluster that is up, in the network that is being tried."""
    workspace = workspace or data
    usual = {"durable": False, "network_mode": NETWORK}
    config = ClusterConfig(data_dir=data / "cluster", workspace=workspace, **{**usual, **options})
    async with EmbeddedCluster.start(config) as cluster:
        yield Running(cluster)


def state(pod: Pod, container: int = 0) -> dict[str, Any]:
    """How one container of a pod fares."""
    told = pod["status"].get("containerStatuses")
    found: dict[str, Any] = told[container]["state"] if told else {}
    return found


def is_running(pod: Pod) -> bool:
    """Whether a pod says that it runs."""
    return bool(pod["status"].get("phase") == "Running")


async def eventually(holds: Callable[[], bool], *, what: str, within: float = 15) -> None:
    """Wait for something that nobody tells of."""
    for _ in range(int(within / 0.01)):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never happened: {what}")
