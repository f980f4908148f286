"""Clients learn from slices and endpoints where services lead to, and find the service of the API itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pliant.kube.codec import WatchEventType
from pliant.kube.resources import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES, Resource
from tests.node.running import Running, is_running, running

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")

Object = dict[str, Any]


async def seen(cluster: Running, resource: Resource, name: str, wanted: Callable[[Object], bool] = bool) -> Object:
    """An object as soon as it is as wanted."""
    fields = f"metadata.name={name}"
    async with asyncio.timeout(10):
        listing = await cluster.client.list(resource, "default", fields=fields)
        for each in listing.items:
            if wanted(each):
                return each
        watch = cluster.client.watch(resource, "default", resource_version=listing.resource_version, fields=fields)
        async with aclosing(watch):
            async for event in watch:
                if event.object is not None and wanted(event.object):
                    return event.object
    raise AssertionError("a watch ended")


async def make_service(cluster: Running, **spec: Any) -> None:
    spec = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "www"}], **spec}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"a": "b"}}, "spec": spec}
    await cluster.client.create(SERVICES, "default", body)


async def backend(cluster: Running, name: str, **more: Any) -> Object:
    container = {"name": "main", "command": ["sleep", "60"], "ports": [{"name": "www", "containerPort": 8000}]}
    await cluster.pod(name, [{**container, **more}], labels={"app": "web"})
    return await cluster.until(name, is_running)


async def test_a_service_has_a_slice_that_follows_its_pods(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await make_service(cluster)
        empty = await seen(cluster, ENDPOINT_SLICES, "web")
        assert empty["endpoints"] is None
        pod = await backend(cluster, "one")
        never = {"readinessProbe": {"exec": {"command": ["false"]}}}
        await backend(cluster, "two", **never)
        full = await seen(cluster, ENDPOINT_SLICES, "web", lambda found: len(found["endpoints"] or ()) == 2)
        first, second = full["endpoints"]
        assert first["addresses"] == [pod["status"]["podIP"]]
        assert first["conditions"] == {"ready": True, "serving": True, "terminating": False}
        assert first["targetRef"]["name"] == "one"
        assert first["nodeName"] == "node-0"
        assert second["conditions"]["ready"] is False
        assert full["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]
        labels = full["metadata"]["labels"]
        assert (labels["kubernetes.io/service-name"], labels["a"]) == ("web", "b")
        # The same in the older form.
        (subset,) = (await seen(cluster, ENDPOINTS, "web"))["subsets"]
        assert [each["ip"] for each in subset["addresses"]] == [pod["status"]["podIP"]]
        assert [each["targetRef"]["name"] for each in subset["notReadyAddresses"]] == ["two"]
        assert subset["ports"] == full["ports"]
        await cluster.client.delete(PODS, "default", "one", grace_period_seconds=0)
        await seen(cluster, ENDPOINTS, "web", lambda found: "addresses" not in found["subsets"][0])
        since = (await cluster.client.list(ENDPOINT_SLICES, "default")).resource_version
        await cluster.client.delete(SERVICES, "default", "web")
        async with asyncio.timeout(10):
            watch = cluster.client.watch(ENDPOINT_SLICES, "default", resource_version=since, fields="metadata.name=web")
            async with aclosing(watch):
                while (await anext(watch)).type is not WatchEventType.DELETED:
                    pass  # it may change before it goes with its service


async def test_the_service_of_the_api_is_there_and_comes_back(tmp_path: Path) -> None:
    for _ in range(2):
        async with running(tmp_path, durable=True) as cluster:
            found = await seen(cluster, SERVICES, "kubernetes")
            assert (found["spec"]["clusterIP"], found["spec"]["ports"][0]["port"]) == ("10.96.0.1", 443)
            (subset,) = (await seen(cluster, ENDPOINTS, "kubernetes"))["subsets"]
            assert subset["addresses"] == [{"ip": "10.88.0.1"}]
            assert subset["ports"][0]["port"] == 6443
            await cluster.client.delete(SERVICES, "default", "kubernetes")
            again = await seen(cluster, SERVICES, "kubernetes")
            assert again["metadata"]["uid"] != found["metadata"]["uid"]
            look = "getent hosts kubernetes.default | cut -d' ' -f1"
            assert await cluster.ran(f"asker-{_}", look) == "10.96.0.1"


async def test_a_namespace_that_goes_as_its_service_comes_harms_nobody_else(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        await cluster.client.create(
            NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
        )
        held = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "late", "finalizers": ["test/held"]}}
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
        await cluster.client.create(SERVICES, "going", {**held, "spec": spec})
        await cluster.client.delete(NAMESPACES, None, "going")
        await asyncio.sleep(0.5)  # in which its slice is due, and refused
        await make_service(cluster)
        assert await seen(cluster, ENDPOINT_SLICES, "web")
        await cluster.client.patch(SERVICES, "going", "late", {"metadata": {"finalizers": None}})
