"""What goes when something else goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pliant.embedded.storage.store import Store
from pliant.errors import Conflict, Forbidden, Invalid, NotFound
from pliant.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, PODS, Resource
from tests.embedded.serving import WIDGETS, Served, config, create_widget_crd, owner_reference, pod, serving, widget


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with serving() as server:
        yield server


async def exists(server: Served, resource: Resource, name: str, namespace: str | None = "default") -> bool:
    await run_pending_tasks()
    try:
        await server.client.get(resource, namespace, name)
    except NotFound:
        return False
    return True


async def run_pending_tasks() -> None:
    """Let the collector run until it has nothing to do; in memory nothing makes it wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def create_config_map(server: Served, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    return await server.client.create(CONFIG_MAPS, "default", config(name, owner=owner))


async def create_bound_pod(server: Served, name: str = "a", **metadata: Any) -> dict[str, Any]:
    await server.client.create(PODS, "default", pod(name, **metadata))
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n"}}
    await server.client.create(PODS, "default", bind, subresource="binding", name=name)
    return await server.client.get(PODS, "default", name)


async def test_dependents_go_with_their_owner_to_any_depth(server: Served) -> None:
    top = await create_config_map(server, "top")
    middle = await create_config_map(server, "middle", top)
    await create_config_map(server, "leaf", middle)
    await create_config_map(server, "bystander")
    status = await server.client.delete(CONFIG_MAPS, "default", "top")
    assert (status["kind"], status["status"], status["details"]["name"]) == ("Status", "Success", "top")
    assert not await exists(server, CONFIG_MAPS, "middle")
    assert not await exists(server, CONFIG_MAPS, "leaf")
    assert await exists(server, CONFIG_MAPS, "bystander")


async def test_a_dependent_with_another_living_owner_stays(server: Served) -> None:
    one, two = await create_config_map(server, "one"), await create_config_map(server, "two")
    shared = config("shared")
    shared["metadata"]["ownerReferences"] = [owner_reference(one), owner_reference(two)]
    await server.client.create(CONFIG_MAPS, "default", shared)
    await server.client.delete(CONFIG_MAPS, "default", "one")
    await run_pending_tasks()
    left = await server.client.get(CONFIG_MAPS, "default", "shared")
    assert [owner["name"] for owner in left["metadata"]["ownerReferences"]] == ["two"]
    await server.client.delete(CONFIG_MAPS, "default", "two")
    assert not await exists(server, CONFIG_MAPS, "shared")


async def test_an_object_of_an_absent_owner_is_collected(server: Served) -> None:
    owner = await create_config_map(server, "owner")
    await server.client.delete(CONFIG_MAPS, "default", "owner")
    await create_config_map(server, "owner")  # the same name is not the same owner
    await create_config_map(server, "late", owner)
    assert not await exists(server, CONFIG_MAPS, "late")


async def test_an_owner_in_another_namespace_is_no_owner(server: Served) -> None:
    owner = await create_config_map(server, "owner")
    await server.client.create(CONFIG_MAPS, "kube-system", config("far", owner=owner))
    assert not await exists(server, CONFIG_MAPS, "far", "kube-system")


async def test_foreground_deletion_takes_blocking_dependents_first(server: Served) -> None:
    owner = await create_config_map(server, "owner")
    held = config("held")
    held["metadata"] |= {
        "ownerReferences": [owner_reference(owner, blockOwnerDeletion=True)],
        "finalizers": ["test/hold"],
    }
    await server.client.create(CONFIG_MAPS, "default", held)
    await create_config_map(server, "free", owner)
    answer = await server.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert not await exists(server, CONFIG_MAPS, "free")
    assert await exists(server, CONFIG_MAPS, "owner")
    await server.client.patch(CONFIG_MAPS, "default", "held", {"metadata": {"finalizers": None}})
    assert not await exists(server, CONFIG_MAPS, "held")
    assert not await exists(server, CONFIG_MAPS, "owner")


async def test_orphans_are_let_go(server: Served) -> None:
    owner = await create_config_map(server, "owner")
    await create_config_map(server, "child", owner)
    await server.client.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
    assert not await exists(server, CONFIG_MAPS, "owner")
    child = await server.client.get(CONFIG_MAPS, "default", "child")
    assert "ownerReferences" not in child["metadata"]


async def test_a_finalizer_holds_an_object_until_it_is_removed(server: Served) -> None:
    await create_widget_crd(server)
    held = widget("a")
    held["metadata"]["finalizers"] = ["test/hold"]
    await server.client.create(WIDGETS, "default", held)
    leaving = await server.client.delete(WIDGETS, "default", "a")
    assert leaving["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert leaving["metadata"]["generation"] == 2
    again = await server.client.delete(WIDGETS, "default", "a")
    assert again["metadata"]["resourceVersion"] == leaving["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        await server.client.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": ["test/hold", "test/more"]}})
    await server.client.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": []}})
    assert not await exists(server, WIDGETS, "a")


async def test_a_running_pod_leaves_with_grace(server: Served) -> None:
    await create_bound_pod(server)
    leaving = await server.client.delete(PODS, "default", "a")
    assert leaving["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:30Z"
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = await server.client.delete(PODS, "default", "a", grace_period_seconds=5)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await server.client.delete(PODS, "default", "a", grace_period_seconds=60)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert await exists(server, PODS, "a")
    gone = await server.client.delete(PODS, "default", "a", grace_period_seconds=0)
    assert gone["kind"] == "Pod"
    assert not await exists(server, PODS, "a")


async def test_a_pod_that_cannot_be_running_leaves_at_once(server: Served) -> None:
    await server.client.create(PODS, "default", pod("unbound"))
    assert (await server.client.delete(PODS, "default", "unbound"))["kind"] == "Pod"
    assert not await exists(server, PODS, "unbound")
    await create_bound_pod(server, "done")
    await server.client.patch(PODS, "default", "done", {"status": {"phase": "Succeeded"}}, subresource="status")
    await server.client.delete(PODS, "default", "done")
    assert not await exists(server, PODS, "done")


async def test_a_pod_with_a_finalizer_outlives_its_grace(server: Served) -> None:
    await create_bound_pod(server, finalizers=["test/hold"])
    await server.client.delete(PODS, "default", "a")
    held = await server.client.delete(PODS, "default", "a", grace_period_seconds=0)
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    await server.client.patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
    assert not await exists(server, PODS, "a")


async def test_preconditions_guard_a_deletion(server: Served) -> None:
    made = await create_config_map(server, "a")
    with pytest.raises(Conflict, match="the UID in the precondition"):
        await server.client.delete(CONFIG_MAPS, "default", "a", uid="other")
    stale = {"preconditions": {"resourceVersion": "1"}}
    reply, status = await server.call("DELETE", CONFIG_MAPS.path("default", "a"), stale)
    assert (reply.status, status["reason"]) == (409, "Conflict")
    with pytest.raises(Invalid, match="propagationPolicy"):
        await server.client.delete(CONFIG_MAPS, "default", "a", propagation="Sideways")
    await server.client.delete(CONFIG_MAPS, "default", "a", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await server.client.delete(CONFIG_MAPS, "default", "a")


async def test_a_collection_is_deleted_as_selected(server: Served) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        await server.client.create(PODS, "default", pod(name, labels={"tier": tier}))
    reply, content = await server.call("DELETE", PODS.path("default"), labelSelector="tier=x")
    assert (reply.status, content["kind"]) == (200, "PodList")
    assert [item["metadata"]["name"] for item in (await server.client.list(PODS, "default")).items] == ["c"]


async def test_a_namespace_goes_after_all_it_holds(server: Served) -> None:
    await create_widget_crd(server)
    await server.client.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    )
    held = widget("a")
    held["metadata"]["finalizers"] = ["test/hold"]
    await server.client.create(WIDGETS, "team", held)
    await server.client.create(PODS, "team", pod("p"))
    leaving = await server.client.delete(NAMESPACES, None, "team")
    assert leaving["status"]["phase"] == "Terminating"
    assert not await exists(server, PODS, "p", "team")
    assert await exists(server, NAMESPACES, "team", None)
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await server.client.create(PODS, "team", pod("q"))
    await server.client.patch(WIDGETS, "team", "a", {"metadata": {"finalizers": None}})
    assert not await exists(server, NAMESPACES, "team", None)
    assert await exists(server, NAMESPACES, "default", None)


async def test_the_first_namespaces_stay(server: Served) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await server.client.delete(NAMESPACES, None, "default")


async def test_a_definition_goes_after_its_objects(server: Served) -> None:
    await create_widget_crd(server)
    for number in range(300):
        await server.client.create(WIDGETS, "default", widget(f"w{number}"))
    await server.client.delete(CRDS, None, "widgets.example.org")
    assert not await exists(server, CRDS, "widgets.example.org", None)
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await server.client.list(WIDGETS)
    await create_widget_crd(server)
    assert (await server.client.list(WIDGETS)).items == []


async def test_what_a_crash_left_undone_is_done_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with Store.open(path) as store:
        async with serving(store) as server:
            owner = await create_config_map(server, "owner")
            await create_widget_crd(server)
            await server.client.create(WIDGETS, "default", widget("w", size=7))
            ghost = config("ghost")
            ghost["metadata"] |= {"uid": "ghost", "ownerReferences": [{**owner_reference(owner), "uid": "gone"}]}
        # No collector runs any more: the store closes with work left over.
        ghost["metadata"]["namespace"] = "default"
        await store.run_transaction(lambda transaction: transaction.put("/configmaps", ghost))
    async with Store.open(path) as store, serving(store) as server:
        for _ in range(200):
            if store.committed.find_key_by_uid("ghost") is None:
                break
            await asyncio.sleep(0.01)
        assert not await exists(server, CONFIG_MAPS, "ghost")
        assert await exists(server, CONFIG_MAPS, "owner")
        assert (await server.client.get(WIDGETS, "default", "w"))["spec"]["size"] == 7
