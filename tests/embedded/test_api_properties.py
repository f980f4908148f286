"""Whatever is sent: an answer comes, and nobody's change is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.storage.store import Store
from pliant.errors import Conflict
from pliant.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, NODES, PODS, SECRETS, SERVICES, Resource
from pliant.kube.transport.base import JSON_CONTENT_TYPE, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from tests.embedded.serving import WIDGETS, config, create_widget_crd, pod, serving, widget, widget_crd
from tests.virtual_time import run

REFUSALS = (400, 404, 409, 422, 500)
"""With 500, API servers refuse versions of new objects and patches that make no sense; a crash is an exception here."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-5, 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSONS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def valid_objects() -> dict[Resource, dict[str, Any]]:
    """One good object of each kind, with every part the server looks at."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u", "controller": True}
    busy = pod("a", labels={"a": "b"}, annotations={"a": "b"}, finalizers=["a/b"], ownerReferences=[owner])
    busy["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 1}],
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    busy["spec"] |= {"volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [{"name": "i", "image": "x"}]}
    ports = [{"port": 1, "targetPort": 2}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": ports}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": "YQ=="}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "spec": {}, "status": {}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}, "spec": {"finalizers": []}}
    return {
        PODS: busy,
        SERVICES: service,
        SECRETS: secret | {"stringData": {"b": "c"}},
        CONFIG_MAPS: config("a", data={"a": "b"}),
        NODES: node,
        NAMESPACES: namespace,
        CRDS: widget_crd(),
        WIDGETS: widget("a", size=1, colour="red") | {"status": {"size": 1}},
    }


def value_paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place inside a JSON value."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in children for place in value_paths(child, (*path, key)))]


def with_value_at(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The same value with something else at one place."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value_at(copy[path[0]], path[1:], new)
    return copy


@given(data=st.data())
def test_an_object_with_anything_anywhere_is_kept_or_refused(data: st.DataObject) -> None:
    objects = valid_objects()
    resource = data.draw(st.sampled_from(list(objects)))
    good = objects[resource]
    place = data.draw(st.sampled_from(value_paths(good)))
    bad = with_value_at(good, place, data.draw(JSONS))

    async def scenario() -> None:
        async with serving() as server:
            if resource is WIDGETS:
                await create_widget_crd(server)
            namespace = "default" if resource.namespaced else None
            reply, _ = await server.call("POST", resource.path(namespace), bad)
            assert reply.status in (201, *REFUSALS), reply.body
            await asyncio.sleep(0)
            for accept in (JSON_CONTENT_TYPE, "application/json;as=Table;v=v1;g=meta.k8s.io"):
                listed, _ = await server.call("GET", resource.path(namespace), accept=accept)
                assert listed.status == 200
            # With nothing in the way of it, the good object can then be put in the place of what was kept.
            reply, _ = await server.call("PUT", resource.path(namespace, good["metadata"]["name"]), bad)
            assert reply.status in (200, *REFUSALS), reply.body

    run(scenario())


@given(data=st.data(), media=st.sampled_from([JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, JSON_CONTENT_TYPE]))
def test_any_patch_of_anything_is_answered(data: st.DataObject, media: str) -> None:
    objects = valid_objects()
    resource = data.draw(st.sampled_from(list(objects)))
    good = objects[resource]
    place = data.draw(st.sampled_from(value_paths(good)))
    subresource = data.draw(st.sampled_from(["", "status", "scale", "binding"]))
    pointer = "".join(f"/{step}" for step in place)
    operation = st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "test"]), "path": st.just(pointer)},
        optional={"value": JSONS},
    )
    operations = st.lists(operation, max_size=2)
    patch = data.draw(operations if media == JSON_PATCH else JSONS.map(lambda new: with_value_at(good, place, new)))

    async def scenario() -> None:
        async with serving() as server:
            if resource is WIDGETS:
                await create_widget_crd(server)
            namespace = "default" if resource.namespaced else None
            if resource is not CRDS:
                await server.client.create(resource, namespace, good)
            path = resource.path(namespace, good["metadata"]["name"], subresource or None)
            method = {"binding": "POST"}.get(subresource, "PATCH")
            reply, _ = await server.call(method, path, patch, media=media)
            assert reply.status in (200, 201, 405, 415, *REFUSALS), reply.body
            reply, _ = await server.call("DELETE", path, patch)
            assert reply.status in (200, 400, 404, 405, 409), reply.body

    run(scenario())


async def test_no_increment_is_lost_among_many_writers(tmp_path: Path) -> None:
    async with Store.open(tmp_path / "objects.db") as store, serving(store) as server:
        for name in ("a", "b"):
            await server.client.create(CONFIG_MAPS, "default", config(name, data={"n": "0"}))
        since = str(store.committed.version)
        conflicts = 0

        async def writer(name: str) -> None:
            nonlocal conflicts
            done = 0
            while done < 10:
                seen = await server.client.get(CONFIG_MAPS, "default", name)
                seen["data"]["n"] = str(int(seen["data"]["n"]) + 1)
                try:
                    await server.client.replace(CONFIG_MAPS, "default", name, seen)
                    done += 1
                except Conflict:
                    conflicts += 1

        await asyncio.gather(*(writer(name) for name in ("a", "b") for _ in range(5)))
        assert conflicts > 0
        told: dict[str, list[int]] = {"a": [], "b": []}
        async for event in server.client.watch(CONFIG_MAPS, "default", resource_version=since):
            assert event.object is not None
            told[event.object["metadata"]["name"]].append(int(event.object["data"]["n"]))
            if sum(map(len, told.values())) == 100:
                break
        assert told == {"a": list(range(1, 51)), "b": list(range(1, 51))}


@given(body=st.binary(max_size=60))
def test_any_protobuf_is_answered(body: bytes) -> None:
    async def scenario() -> None:
        async with serving() as server:
            media = "application/vnd.kubernetes.protobuf"
            reply, _ = await server.call("POST", CONFIG_MAPS.path("default"), b"k8s\x00" + body, media=media)
            assert reply.status in (400, 422)

    run(scenario())
