"""An API server with the workload controllers, with their own rights, and nodes on which pods do what a test says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from pliant.embedded.apiserver.auth.users import CONTROLLERS_USER, UserInfo
from pliant.embedded.apiserver.authorization.authorizer import AuthorizationMode
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.controllers.workloads.manager import WorkloadManager
from pliant.embedded.controllers.workloads.views import DEPLOYMENTS, JOBS, REPLICA_SETS
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.errors import ApiError, Unreachable
from pliant.kube.cache.informer import Informer
from pliant.kube.client import KubeClient
from pliant.kube.objects import Pod
from pliant.kube.resources import EVENTS, PODS, Resource
from pliant.kube.timestamps import format_timestamp
from pliant.kube.transport.base import MERGE_PATCH, Reply, Request
from pliant.runtime.clock import Clock, SystemClock
from tests.virtual_time import VirtualClock, quiet

SPACE = "default"
STARTUP_SECONDS = 0.2
GRACE_SECONDS = 0.5
Object = dict[str, Any]


class CountingTransport(InProcessTransport):
    """Counts the writes of one user, except of events."""

    def __init__(self, api: ApiServer, user: UserInfo) -> None:
        super().__init__(api, user)
        self.writes: list[tuple[str, str]] = []
        self.fails_after: int | None = None
        """The number of further writes before all others fail, as for a process that was killed."""
        self.loses_last_answer = False
        """Whether the last write succeeds without an answer."""

    async def send(self, request: Request) -> Reply:
        if request.method != "GET" and "/events" not in request.path:
            if self.fails_after == 0:
                raise Unreachable("killed")
            self.fails_after = None if self.fails_after is None else self.fails_after - 1
            self.writes.append((request.method, request.path))
            if self.fails_after == 0 and self.loses_last_answer:
                await super().send(request)
                raise Unreachable("killed before the answer arrived")
        return await super().send(request)


class Stage:
    """Creates workloads, lets pods end, and waits on virtual time."""

    def __init__(self, api: ApiServer, controllers: CountingTransport) -> None:
        self.api = api
        self.client = KubeClient(InProcessTransport(api))
        self.controllers = controllers
        self.is_unready: Callable[[Pod], bool] = lambda pod: False
        """Whether a pod runs without becoming ready."""
        self._nodes = StandInKubelet(self.client, lambda pod: self.is_unready(pod), VirtualClock())
        self._running: asyncio.Task[None] | None = None

    @property
    def writes(self) -> list[tuple[str, str]]:
        return self.controllers.writes

    async def restart_controllers(self, after_writes: int | None = None) -> None:
        """Start controllers that know nothing of earlier ones; their writes fail after some, if that is given."""
        await self.stop_controllers()
        self.controllers.fails_after = after_writes
        manager = WorkloadManager(KubeClient(self.controllers), VirtualClock(), self.api.store)
        self._running = asyncio.create_task(manager.run())

    async def stop_controllers(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def run_nodes(self) -> None:
        await self._nodes.run()

    async def create(self, resource: Resource, name: str, **spec: Any) -> Object:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}, "spec": spec}
        return await self.client.create(resource, SPACE, body)

    async def create_deployment(self, name: str = "web", **spec: Any) -> Object:
        return await self.create(DEPLOYMENTS, name, **{**replicated(name), **spec})

    async def create_replica_set(self, name: str = "web", **spec: Any) -> Object:
        return await self.create(REPLICA_SETS, name, **{**replicated(name), **spec})

    async def create_job(self, name: str = "prepare", restart_policy: str = "Never", **spec: Any) -> Object:
        template = {"spec": {**container_spec(), "restartPolicy": restart_policy}}
        return await self.create(JOBS, name, **{"template": template, **spec})

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.client.get(resource, SPACE, name)

    async def list_objects(self, resource: Resource, labels: str = "") -> list[Object]:
        return (await self.client.list(resource, SPACE, labels=labels)).items

    async def patch(self, resource: Resource, name: str, patch: Object, media: str = MERGE_PATCH) -> Object:
        return await self.client.patch(resource, SPACE, name, patch, content_type=media)

    async def active_pods(self) -> list[Object]:
        return [
            pod
            for pod in await self.list_objects(PODS)
            if pod["status"]["phase"] in ("Pending", "Running") and "deletionTimestamp" not in pod["metadata"]
        ]

    async def finish(self, name: str, exit_code: int = 0, **more_status: Any) -> None:
        """Let all containers of a pod end."""
        pod = await self.get(PODS, name)
        ended = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed", **finished_at()}
        statuses = [container_status(each["name"], {"terminated": ended}) for each in pod["spec"]["containers"]]
        phase = "Failed" if exit_code else "Succeeded"
        await self.set_status(name, phase=phase, containerStatuses=statuses, conditions=[], **more_status)

    async def set_status(self, name: str, **status: Any) -> None:
        await self.client.patch(PODS, SPACE, name, {"status": status}, subresource="status")

    async def event_reasons(self, name: str) -> list[str]:
        events = await self.list_objects(EVENTS)
        events.sort(key=lambda each: int(each["metadata"]["resourceVersion"]))
        return [each["reason"] for each in events if each["involvedObject"]["name"] == name]

    async def settle(self, seconds: float = 5.0) -> None:
        """Let time pass until the pods are up and nothing is left to do."""
        await asyncio.sleep(seconds)
        await quiet()


class StandInKubelet:
    """Binds pods, makes them ready, and removes deleted ones after their grace period."""

    def __init__(self, client: KubeClient, is_unready: Callable[[Pod], bool], clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._is_unready = is_unready
        self._pods: Informer[Pod] = Informer(client, PODS, Pod, on_change=self._on_change)
        self._changes: asyncio.Queue[Pod] = asyncio.Queue()
        self._known: set[tuple[str, bool]] = set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pods.run())
            while True:
                pod = await self._changes.get()
                is_leaving = pod.metadata.deletion_timestamp is not None
                if (pod.metadata.uid, is_leaving) not in self._known:
                    self._known.add((pod.metadata.uid, is_leaving))
                    tasks.create_task(self._remove(pod) if is_leaving else self._start(pod))

    def _on_change(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._changes.put_nowait(new)

    async def _start(self, pod: Pod) -> None:
        meta = pod.metadata
        with suppress(ApiError):
            binding = {"metadata": {"name": meta.name}, "target": {"kind": "Node", "name": "node-0"}}
            await self._client.create(PODS, meta.namespace, binding, subresource="binding", name=meta.name)
            await asyncio.sleep(STARTUP_SECONDS)
            now = format_timestamp(self._clock.now())
            is_ready = "False" if self._is_unready(pod) else "True"
            status = {
                "phase": "Running",
                "startTime": now,
                "conditions": [{"type": "Ready", "status": is_ready, "lastTransitionTime": now}],
                "containerStatuses": [container_status(each.name, {"running": {}}) for each in pod.spec.containers],
            }
            body = {"metadata": {"uid": meta.uid}, "status": status}
            await self._client.patch(PODS, meta.namespace, meta.name, body, subresource="status")

    async def _remove(self, pod: Pod) -> None:
        meta = pod.metadata
        await asyncio.sleep(GRACE_SECONDS)
        with suppress(ApiError):
            await self._client.delete(PODS, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)


@asynccontextmanager
async def staged(store: Store | None = None) -> AsyncIterator[Stage]:
    """Run the workload controllers as the user whose rights they have in a cluster."""
    clock = VirtualClock()
    async with ApiServer.start(
        store or Store.in_memory(),
        KindRegistry.with_builtin_kinds(),
        clock,
        rng=random.Random(1),
        authorization_mode=AuthorizationMode.RBAC,
    ) as api:
        controllers = CountingTransport(api, CONTROLLERS_USER)
        stage = Stage(api, controllers)
        async with asyncio.TaskGroup() as tasks:
            nodes = tasks.create_task(stage.run_nodes())
            await stage.restart_controllers()
            try:
                yield stage
            finally:
                await stage.stop_controllers()
                nodes.cancel()


def container_spec(**container: Any) -> Object:
    return {"containers": [{"name": "main", "image": "none:1", "command": ["true"], **container}]}


def replicated(name: str) -> Object:
    """Return the selector and the template of a Deployment or ReplicaSet."""
    labels = {"app": name}
    return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": container_spec()}}


def container_status(name: str, state: Object) -> Object:
    return {"name": name, "image": "", "imageID": "", "ready": "running" in state, "restartCount": 0, "state": state}


def finished_at() -> Object:
    return {"finishedAt": format_timestamp(VirtualClock().now())}
