"""Code of plugins that blocks: its own jobs say so, and no other job waits."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest

from pliant.controllers.job import resource_of
from pliant.controllers.operator import Operator
from pliant.embedded.apiserver.http.in_process_transport import InProcessTransport
from pliant.embedded.apiserver.server import ApiServer
from pliant.embedded.registry.kind_registry import KindRegistry
from pliant.embedded.storage.store import Store
from pliant.frontends import FRONTENDS
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, PODS
from pliant.plugins import DLJob, DLReplica, isolation
from pliant.plugins.isolation import PluginTimeout, call_plugin, plugin_of_kind
from pliant.plugins.registry import PluginRegistry, get_plugin_registry
from pliant.runtime.clock import SystemClock
from tests.controllers.operated import operating
from tests.frontends import kubeflow

RELEASED = threading.Event()


class SleepyJob(DLJob):
    """A job of a plugin that waits for something."""

    job_type = "SleepyJob"
    group = "example.com"
    replica_types = ("worker",)

    def get_environment_variables(self, replica: DLReplica) -> Mapping[str, str]:
        RELEASED.wait(30)
        return {"RANK": str(replica.rank)}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    RELEASED.clear()
    monkeypatch.setattr(isolation, "PLUGIN_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr("pliant.controllers.job.PLUGIN_RETRY_DELAY", timedelta(seconds=0.5))
    yield
    RELEASED.set()


def test_built_in_kinds_are_called_directly() -> None:
    assert plugin_of_kind(FRONTENDS["kubeflow.org", "PyTorchJob"]) == ""
    assert plugin_of_kind(SleepyJob()) == "SleepyJob"


async def call(function: Callable[[], Any]) -> Any:
    return await call_plugin("Test", function)


def test_a_call_returns_what_it_returned_and_raises_what_it_raised() -> None:
    assert asyncio.run(call(lambda: 3)) == 3
    with pytest.raises(KeyError, match="x"):
        asyncio.run(call(lambda: dict[str, int]()["x"]))


def test_a_call_that_blocks_is_given_up_and_names_the_class() -> None:
    with pytest.raises(PluginTimeout, match="the plugin class Test has not returned"):
        asyncio.run(call(lambda: RELEASED.wait(30)))


def test_a_plugin_that_blocks_stalls_only_its_own_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    sleepy, pytorch = SleepyJob(), FRONTENDS["kubeflow.org", "PyTorchJob"]
    known = get_plugin_registry()
    registry = PluginRegistry(kinds=dict(known.kinds), frameworks=dict(known.frameworks))
    registry.register_kind(sleepy, "test")
    monkeypatch.setattr("pliant.plugins.registry.get_plugin_registry", lambda: registry)
    monkeypatch.setattr("pliant.plugins.isolation.get_plugin_registry", lambda: registry)
    asyncio.run(_play(sleepy, pytorch))


async def _play(sleepy: DLJob, pytorch: Any) -> None:
    async with ApiServer.start(
        Store.in_memory(), KindRegistry.with_builtin_kinds(), SystemClock(), rng=random.Random(0)
    ) as api:
        client = KubeClient(InProcessTransport(api))
        for frontend in (sleepy, pytorch):
            await client.create(CRDS, None, frontend.crd())
        operator = Operator(client, SystemClock(), frontends=[sleepy, pytorch])
        async with operating(operator):
            await client.create(resource_of(sleepy), "default", sleepy_manifest())
            await asyncio.sleep(0.2)  # the plugin blocks now
            await client.create(resource_of(pytorch), "default", pytorch_manifest())
            await until(lambda: has_pods(client, {"demo-worker-0"}))
            assert not RELEASED.is_set()
            await until(lambda: says(client, resource_of(sleepy), "the plugin class SleepyJob has not returned"))
            RELEASED.set()
            await until(lambda: has_pods(client, {"demo-worker-0", "sleepy-worker-0"}))


def sleepy_manifest() -> dict[str, Any]:
    replica = {"replicaType": "worker", "replicas": 1, "template": kubeflow.TEMPLATE}
    meta = {"name": "sleepy", "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "SleepyJob", "metadata": meta, "spec": [replica]}


def pytorch_manifest() -> dict[str, Any]:
    manifest = kubeflow.raw_of("PyTorchJob", {"Worker": 1})
    return {**manifest, "metadata": {"name": "demo", "namespace": "default"}}


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.05)


async def has_pods(client: KubeClient, names: set[str]) -> bool:
    return {pod["metadata"]["name"] for pod in (await client.list(PODS, "default")).items} == names


async def says(client: KubeClient, resource: Any, words: str) -> bool:
    return words in str((await client.get(resource, "default", "sleepy")).get("status"))
