"""Server-side apply: what a manager states becomes so and becomes its own; what others own is not taken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from pliant.embedded.apiserver.patch import field_sets
from pliant.errors import Conflict, Invalid, NotFound
from pliant.kube.resources import CONFIG_MAPS, PODS, SERVICES
from pliant.kube.transport.base import APPLY_PATCH, MERGE_PATCH
from tests.embedded.serving import WIDGETS, Served, create_widget_crd, serving
from tests.embedded.test_kubectl import Kubectl, apply_widget, kubectl

__all__ = ["kubectl"]


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


async def apply(server: Served, who: str, data: dict[str, str] | None, **more: Any) -> dict[str, Any]:
    body = {"metadata": {"name": "a", **more.pop("metadata", {})}, **({} if data is None else {"data": data})}
    return await server.client.apply(CONFIG_MAPS, "default", body, field_manager=who, **more)


async def get_stored(server: Served) -> dict[str, Any]:
    _, obj = await server.call("GET", CONFIG_MAPS.path("default", "a"))
    return dict(obj)


async def fields_by_manager(server: Served) -> dict[str, Any]:
    fields = (await get_stored(server))["metadata"]["managedFields"]
    return {each["manager"]: each["fieldsV1"] for each in fields}


async def test_applying_creates_and_records_who_owns_what(server: Served) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}}
    body["data"] = {"k": "1"}
    path = CONFIG_MAPS.path("default", "a")
    reply, made = await server.call("PATCH", path, body, media=APPLY_PATCH, fieldManager="ada")
    assert reply.status == 201
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("ada", "Apply", "v1")
    assert entry["fieldsV1"] == {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}
    again, same = await server.call("PATCH", path, body, media=APPLY_PATCH, fieldManager="ada")
    assert again.status == 200
    assert same == made, "nothing is new"


async def test_yaml_is_read(server: Served) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
    path = CONFIG_MAPS.path("default", "a")
    reply, made = await server.call("PATCH", path, body, media=APPLY_PATCH, fieldManager="ada")
    assert (reply.status, made["data"]) == (201, {"k": "v"})


async def test_what_a_manager_leaves_out_goes_unless_somebody_else_has_it(server: Served) -> None:
    await apply(server, "ada", {"a": "1", "b": "2", "c": "3"})
    await apply(server, "bob", {"b": "2"})
    await apply(server, "ada", {"c": "3"})
    assert (await get_stored(server))["data"] == {"b": "2", "c": "3"}
    assert await fields_by_manager(server) == {"ada": {"f:data": {"f:c": {}}}, "bob": {"f:data": {"f:b": {}}}}
    await apply(server, "bob", {})
    assert (await get_stored(server))["data"] == {"c": "3"}


async def test_a_field_of_another_manager_is_a_conflict_until_forced(server: Served) -> None:
    await apply(server, "ada", {"a": "1", "b": "1"})
    with pytest.raises(Conflict) as refusal:
        await apply(server, "bob", {"a": "2"})
    assert refusal.value.message == 'Apply failed with 1 conflict: conflict with "ada": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "ada"', "field": ".data.a"}
    assert refusal.value.details["causes"] == [cause]
    with pytest.raises(Conflict, match=r'2 conflicts: conflicts with "ada":\n- \.data\.a\n- \.data\.b'):
        await apply(server, "bob", {"a": "2", "b": "2"})
    await apply(server, "bob", {"a": "2"}, force=True)
    assert await fields_by_manager(server) == {"ada": {"f:data": {"f:b": {}}}, "bob": {"f:data": {"f:a": {}}}}
    assert (await get_stored(server))["data"] == {"a": "2", "b": "1"}


async def test_saying_the_same_is_no_conflict(server: Served) -> None:
    await apply(server, "ada", {"a": "1"})
    await apply(server, "bob", {"a": "1"})
    assert set(await fields_by_manager(server)) == {"ada", "bob"}


async def test_other_writes_take_what_they_change(server: Served) -> None:
    await apply(server, "ada", {"a": "1", "b": "1"})
    path = CONFIG_MAPS.path("default", "a")
    change = {"data": {"a": "2"}, "metadata": {"managedFields": [{"manager": "me"}]}}
    await server.call("PATCH", path, change, media=MERGE_PATCH, fieldManager="edit")
    assert await fields_by_manager(server) == {"ada": {"f:data": {"f:b": {}}}, "edit": {"f:data": {"f:a": {}}}}
    with pytest.raises(Conflict, match='conflict with "edit" using v1'):
        await apply(server, "ada", {"a": "1", "b": "1"})
    await apply(server, "ada", {"b": "1"})
    assert (await get_stored(server))["data"] == {"a": "2", "b": "1"}, "it belongs to another now"


async def test_what_was_there_before_belongs_to_nobody_in_particular(server: Served) -> None:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "1", "b": "1"}}
    await server.client.create(CONFIG_MAPS, "default", plain)
    assert "managedFields" not in (await get_stored(server))["metadata"]
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.data\.a'):
        await apply(server, "ada", {"a": "2"})
    await apply(server, "ada", {"a": "1", "c": "1"})
    assert (await get_stored(server))["data"] == {"a": "1", "b": "1", "c": "1"}


async def test_lists_are_merged_by_their_keys(server: Served) -> None:
    def pod(*containers: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": "a"}, "spec": {"containers": list(containers)}}

    main = {"name": "main", "image": "x", "command": ["true"], "ports": [{"containerPort": 80}]}
    await server.client.apply(PODS, "default", pod(main), field_manager="ada")
    _, made = await server.call("GET", PODS.path("default", "a"))
    (entry,) = made["metadata"]["managedFields"]
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert entry["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"main"}'] == {
        ".": {},
        "f:command": {},
        "f:image": {},
        "f:name": {},
        "f:ports": {port: {".": {}, "f:containerPort": {}}},
    }
    await server.client.apply(PODS, "default", pod({"name": "main", "image": "y"}), field_manager="bob", force=True)
    _, changed = await server.call("GET", PODS.path("default", "a"))
    (container,) = changed["spec"]["containers"]
    assert (container["image"], container["command"]) == ("y", ["true"])


async def test_sets_and_services(server: Served) -> None:
    await apply(server, "ada", None, metadata={"finalizers": ["a.io/x"]})
    await apply(server, "bob", None, metadata={"finalizers": ["b.io/y"]})
    assert (await get_stored(server))["metadata"]["finalizers"] == ["a.io/x", "b.io/y"]
    await apply(server, "ada", None)
    assert (await get_stored(server))["metadata"]["finalizers"] == ["b.io/y"]
    ports = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    body = {"metadata": {"name": "s"}, "spec": {"selector": {"x": "y"}, "ports": ports}}
    await server.client.apply(SERVICES, "default", body, field_manager="ada")
    body["spec"] = {"selector": {"x": "y"}, "ports": ports[:1]}
    left = await server.client.apply(SERVICES, "default", body, field_manager="ada")
    assert [port["port"] for port in left["spec"]["ports"]] == [80]


async def test_custom_kinds_and_their_status(server: Served) -> None:
    await create_widget_crd(server)
    body = {"metadata": {"name": "w"}, "spec": {"colour": "red"}, "status": {"phase": "On"}}
    made = await server.client.apply(WIDGETS, "default", body, field_manager="ada")
    assert made["spec"] == {"colour": "red", "size": 1}
    assert "status" not in made
    status = {"metadata": {"name": "w"}, "status": {"phase": "On"}}
    made = await server.client.apply(WIDGETS, "default", status, field_manager="ada", subresource="status")
    assert made["status"] == {"phase": "On"}
    _, seen = await server.call("GET", WIDGETS.path("default", "w"))
    fields = [(each.get("subresource"), each["fieldsV1"]) for each in seen["metadata"]["managedFields"]]
    assert fields == [(None, {"f:spec": {"f:colour": {}}}), ("status", {"f:status": {"f:phase": {}}})]
    again = await server.client.apply(WIDGETS, "default", {"metadata": {"name": "w"}, "spec": {}}, field_manager="ada")
    assert again["spec"] == {"size": 1}
    assert again["status"] == {"phase": "On"}


async def test_senseless_applications_are_refused(server: Served) -> None:
    path = CONFIG_MAPS.path("default", "a")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    _, status = await server.call("PATCH", path, body, media=APPLY_PATCH)
    assert (status["code"], status["details"]["causes"][0]["field"]) == (422, "fieldManager")
    body["metadata"] = {"name": "a", "managedFields": [{"manager": "x"}]}
    _, status = await server.call("PATCH", path, body, media=APPLY_PATCH, fieldManager="ada")
    assert status["message"] == "metadata.managedFields must be nil"
    with pytest.raises(Invalid):
        await server.client.apply(PODS, "default", {"metadata": {"name": "a"}, "spec": {}}, field_manager="ada")
    with pytest.raises(NotFound):
        await server.client.apply(PODS, "default", {"metadata": {"name": "a"}}, field_manager="x", subresource="status")


def test_paths_are_kept_and_printed() -> None:
    shape = {
        "properties": {
            "list": {
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"properties": {"name": {}, "deep": {}}},
            },
            "set": {"x-kubernetes-list-type": "set"},
        }
    }
    value = {"list": [{"name": "x", "deep": {"y": [1]}}], "set": ["v"], "empty": {}}
    paths = dict(field_sets.iter_fields(value, shape)).keys()
    assert sorted(map(field_sets.format_field_path, paths)) == [
        ".empty",
        '.list[name="x"]',
        '.list[name="x"].deep.y',
        '.list[name="x"].name',
        '.set[="v"]',
    ]
    assert set(field_sets.decode_fields_v1(field_sets.encode_fields_v1(paths))) == paths


async def test_kubectl_applies_on_the_server(kubectl: Kubectl) -> None:
    await apply_widget(kubectl, size=2)
    body = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"size": 3}}

    def encode_body(**spec: Any) -> str:
        return msgspec.json.encode({**body, "spec": spec}).decode()

    said = await kubectl("apply", "--server-side", "-f", "-", stdin=encode_body(size=3))
    assert said == "widget.example.org/x serverside-applied\n"
    await kubectl("patch", "wd", "x", "--type=merge", "-p", '{"spec":{"size":4}}')
    said = await kubectl("apply", "--server-side", "-f", "-", stdin=encode_body(size=5), fails=True)
    assert 'Apply failed with 1 conflict: conflict with "kubectl-patch" using example.org/v1' in said
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=encode_body(size=5))
    assert await kubectl("get", "wd", "x", "-o", "jsonpath={.spec.size}") == "5"
    assert "diff" in await kubectl("diff", "--server-side", "-f", "-", stdin=encode_body(size=6), fails=True)
    assert "configured" in await kubectl("apply", "-f", "-", stdin=encode_body(size=7))
    await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=encode_body(size=8))
    shown = await kubectl("get", "wd", "x", "-o", "yaml", "--show-managed-fields")
    assert "manager: kubectl" in shown
