"""What the server knows about particular kinds, beyond their schemas."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest

from pliant.embedded.storage.store import Store
from pliant.errors import Conflict, Invalid
from pliant.kube.resources import CRDS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from tests.embedded.serving import WIDGETS, Served, create_widget_crd, pod, service, serving, widget, widget_crd


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


async def test_services_get_addresses_of_their_own(server: Served) -> None:
    first = await server.client.create(SERVICES, "default", service("a"))
    second = await server.client.create(SERVICES, "default", service("b"))
    headless = await server.client.create(SERVICES, "default", service("c", clusterIP="None"))
    assert first["spec"]["clusterIP"].startswith("10.96.")
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert (first["spec"]["type"], first["spec"]["sessionAffinity"]) == ("ClusterIP", "None")
    assert first["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert headless["spec"]["clusterIP"] == "None"
    with pytest.raises(Invalid, match="already allocated"):
        await server.client.create(SERVICES, "default", service("d", clusterIP=first["spec"]["clusterIP"]))
    with pytest.raises(Invalid, match="may not change once set"):
        await server.client.patch(SERVICES, "default", "a", {"spec": {"clusterIP": "10.96.9.9"}})
    await server.client.delete(SERVICES, "default", "a")
    await server.client.create(SERVICES, "default", service("d", clusterIP=first["spec"]["clusterIP"]))


async def test_secrets_take_plain_text_and_keep_it_encoded(server: Served) -> None:
    plain = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"word": "hush"}}
    made = await server.client.create(SECRETS, "default", plain)
    assert made["data"] == {"word": base64.b64encode(b"hush").decode()}
    assert "stringData" not in made
    assert made["type"] == "Opaque"


async def test_a_pod_cannot_be_rewritten_but_for_a_few_fields(server: Served) -> None:
    await server.client.create(PODS, "default", pod("a"))
    with pytest.raises(Invalid, match="pod updates may not change fields other than"):
        await server.client.patch(PODS, "default", "a", {"spec": {"restartPolicy": "Never"}})
    await server.client.patch(PODS, "default", "a", {"spec": {"activeDeadlineSeconds": 5}})


async def test_a_namespace_comes_with_its_service_account(server: Served) -> None:
    names = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    made = await server.client.create(NAMESPACES, None, names)
    assert made["status"]["phase"] == "Active"
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    await server.client.get(SERVICE_ACCOUNTS, "team", "default")
    for first in ("default", "kube-system", "kube-public"):
        await server.client.get(NAMESPACES, None, first)


async def test_a_definition_is_established_when_it_is_answered(server: Served) -> None:
    await create_widget_crd(server)
    crd = await server.client.get(CRDS, None, "widgets.example.org")
    assert {c["type"]: c["status"] for c in crd["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["singular"] == "widget"
    bad = {**crd, "metadata": {"name": "gadgets.example.org"}}
    with pytest.raises(Invalid, match=r'must be spec.names.plural\+"."\+spec.group'):
        await server.client.create(CRDS, None, bad)


async def test_scale_reads_and_changes_one_number(server: Served) -> None:
    await create_widget_crd(server)
    await server.client.create(WIDGETS, "default", widget("a", size=2))
    status = {"status": {"size": 1, "selector": "x=y"}}
    await server.client.patch(WIDGETS, "default", "a", status, subresource="status")
    scale = await server.client.get(WIDGETS, "default", "a", subresource="scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "x=y"})
    scale["spec"]["replicas"] = 4
    await server.client.replace(WIDGETS, "default", "a", scale, subresource="scale")
    with pytest.raises(Conflict):
        await server.client.replace(WIDGETS, "default", "a", scale, subresource="scale")
    await server.client.patch(WIDGETS, "default", "a", {"spec": {"replicas": 5}}, subresource="scale")
    made = await server.client.get(WIDGETS, "default", "a")
    assert (made["spec"]["size"], made["metadata"]["generation"]) == (5, 3)
    with pytest.raises(Invalid, match=r"\.spec\.size: .*non-negative"):
        await server.client.patch(WIDGETS, "default", "a", {"spec": {"replicas": -1}}, subresource="scale")


async def test_a_pod_is_bound_once(server: Served) -> None:
    await server.client.create(PODS, "default", pod("a"))
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "node-1"}}
    await server.client.create(PODS, "default", target, subresource="binding", name="a")
    made = await server.client.get(PODS, "default", "a")
    assert made["spec"]["nodeName"] == "node-1"
    assert [(c["type"], c["status"]) for c in made["status"]["conditions"]] == [("PodScheduled", "True")]
    with pytest.raises(Conflict, match='already assigned to node "node-1"'):
        await server.client.create(PODS, "default", target, subresource="binding", name="a")


async def test_groups_keep_their_order_when_the_server_starts_again() -> None:
    store, told = Store.in_memory(), []
    async with serving(store) as server:
        for group in ("second.org", "first.org"):
            definition = widget_crd()
            definition["metadata"]["name"] = f"widgets.{group}"
            definition["spec"]["group"] = group
            await server.client.create(CRDS, None, definition)
        told.append((await server.call("GET", "/apis"))[1])
    async with serving(store) as server:
        told.append((await server.call("GET", "/apis"))[1])
    before, after = ([group["name"] for group in each["groups"]] for each in told)
    assert before == after
    assert before[-2:] == ["second.org", "first.org"]


async def test_an_object_that_a_newer_definition_finds_invalid_keeps_what_does_not_change(server: Served) -> None:
    await create_widget_crd(server)
    await server.client.create(WIDGETS, "default", widget("a", size=2))
    crd = await server.client.get(CRDS, None, "widgets.example.org")
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] |= {"minimum": 3, "default": 3}
    await server.client.replace(CRDS, None, "widgets.example.org", crd)
    written = await server.client.patch(WIDGETS, "default", "a", {"status": {"size": 1}}, subresource="status")
    assert written["status"] == {"size": 1}
    await server.client.patch(WIDGETS, "default", "a", {"metadata": {"labels": {"seen": "yes"}}})
    with pytest.raises(Invalid, match=r"spec\.size"):
        await server.client.patch(WIDGETS, "default", "a", {"spec": {"size": 1}})
    with pytest.raises(Invalid, match=r"spec\.size"):
        await server.client.create(WIDGETS, "default", widget("b", size=2))
