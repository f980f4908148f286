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
from tests.embedded.serving import WIDGETS, Served, config, owned_by, pod, serving, widget, with_widgets


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serving() as served:
        yield served


async def exists(served: Served, resource: Resource, name: str, namespace: str | None = "default") -> bool:
    await settled()
    try:
        await served.client.get(resource, namespace, name)
    except NotFound:
        return False
    return True


async def settled() -> None:
    """Let the collector run until it has nothing to do; in memory nothing makes it wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def make(served: Served, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    return await served.client.create(CONFIG_MAPS, "default", config(name, owner=owner))


async def bound_pod(served: Served, name: str = "a", **metadata: Any) -> dict[str, Any]:
    await served.client.create(PODS, "default", pod(name, **metadata))
    bind = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "n"}}
    await served.client.create(PODS, "default", bind, subresource="binding", name=name)
    return await served.client.get(PODS, "default", name)


async def test_dependents_go_with_their_owner_to_any_depth(served: Served) -> None:
    top = await make(served, "top")
    middle = await make(served, "middle", top)
    await make(served, "leaf", middle)
    await make(served, "bystander")
    status = await served.client.delete(CONFIG_MAPS, "default", "top")
    assert (status["kind"], status["status"], status["details"]["name"]) == ("Status", "Success", "top")
    assert not await exists(served, CONFIG_MAPS, "middle")
    assert not await exists(served, CONFIG_MAPS, "leaf")
    assert await exists(served, CONFIG_MAPS, "bystander")


async def test_a_dependent_with_another_living_owner_stays(served: Served) -> None:
    one, two = await make(served, "one"), await make(served, "two")
    shared = config("shared")
    shared["metadata"]["ownerReferences"] = [owned_by(one), owned_by(two)]
    await served.client.create(CONFIG_MAPS, "default", shared)
    await served.client.delete(CONFIG_MAPS, "default", "one")
    await settled()
    left = await served.client.get(CONFIG_MAPS, "default", "shared")
    assert [owner["name"] for owner in left["metadata"]["ownerReferences"]] == ["two"]
    await served.client.delete(CONFIG_MAPS, "default", "two")
    assert not await exists(served, CONFIG_MAPS, "shared")


async def test_an_object_of_an_absent_owner_is_collected(served: Served) -> None:
    owner = await make(served, "owner")
    await served.client.delete(CONFIG_MAPS, "default", "owner")
    await make(served, "owner")  # the same name is not the same owner
    await make(served, "late", owner)
    assert not await exists(served, CONFIG_MAPS, "late")


async def test_an_owner_in_another_namespace_is_no_owner(served: Served) -> None:
    owner = await make(served, "owner")
    await served.client.create(CONFIG_MAPS, "kube-system", config("far", owner=owner))
    assert not await exists(served, CONFIG_MAPS, "far", "kube-system")


async def test_foreground_deletion_takes_blocking_dependents_first(served: Served) -> None:
    owner = await make(served, "owner")
    held = config("held")
    held["metadata"] |= {"ownerReferences": [owned_by(owner, blockOwnerDeletion=True)], "finalizers": ["test/hold"]}
    await served.client.create(CONFIG_MAPS, "default", held)
    await make(served, "free", owner)
    answer = await served.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
    assert answer["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert not await exists(served, CONFIG_MAPS, "free")
    assert await exists(served, CONFIG_MAPS, "owner")
    await served.client.patch(CONFIG_MAPS, "default", "held", {"metadata": {"finalizers": None}})
    assert not await exists(served, CONFIG_MAPS, "held")
    assert not await exists(served, CONFIG_MAPS, "owner")


async def test_orphans_are_let_go(served: Served) -> None:
    owner = await make(served, "owner")
    await make(served, "child", owner)
    await served.client.delete(CONFIG_MAPS, "default", "owner", propagation="Orphan")
    assert not await exists(served, CONFIG_MAPS, "owner")
    child = await served.client.get(CONFIG_MAPS, "default", "child")
    assert "ownerReferences" not in child["metadata"]


async def test_a_finalizer_holds_an_object_until_it_is_removed(served: Served) -> None:
    await with_widgets(served)
    held = widget("a")
    held["metadata"]["finalizers"] = ["test/hold"]
    await served.client.create(WIDGETS, "default", held)
    leaving = await served.client.delete(WIDGETS, "default", "a")
    assert leaving["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert leaving["metadata"]["generation"] == 2
    again = await served.client.delete(WIDGETS, "default", "a")
    assert again["metadata"]["resourceVersion"] == leaving["metadata"]["resourceVersion"]
    with pytest.raises(Invalid, match="no new finalizers can be added"):
        await served.client.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": ["test/hold", "test/more"]}})
    await served.client.patch(WIDGETS, "default", "a", {"metadata": {"finalizers": []}})
    assert not await exists(served, WIDGETS, "a")


async def test_a_running_pod_leaves_with_grace(served: Served) -> None:
    await bound_pod(served)
    leaving = await served.client.delete(PODS, "default", "a")
    assert leaving["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:30Z"
    assert leaving["metadata"]["deletionGracePeriodSeconds"] == 30
    shorter = await served.client.delete(PODS, "default", "a", grace_period_seconds=5)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = await served.client.delete(PODS, "default", "a", grace_period_seconds=60)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert await exists(served, PODS, "a")
    gone = await served.client.delete(PODS, "default", "a", grace_period_seconds=0)
    assert gone["kind"] == "Pod"
    assert not await exists(served, PODS, "a")


async def test_a_pod_that_cannot_be_running_leaves_at_once(served: Served) -> None:
    await served.client.create(PODS, "default", pod("unbound"))
    assert (await served.client.delete(PODS, "default", "unbound"))["kind"] == "Pod"
    assert not await exists(served, PODS, "unbound")
    await bound_pod(served, "done")
    await served.client.patch(PODS, "default", "done", {"status": {"phase": "Succeeded"}}, subresource="status")
    await served.client.delete(PODS, "default", "done")
    assert not await exists(served, PODS, "done")


async def test_a_pod_with_a_finalizer_outlives_its_grace(served: Served) -> None:
    await bound_pod(served, finalizers=["test/hold"])
    await served.client.delete(PODS, "default", "a")
    held = await served.client.delete(PODS, "default", "a", grace_period_seconds=0)
    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    await served.client.patch(PODS, "default", "a", {"metadata": {"finalizers": None}})
    assert not await exists(served, PODS, "a")


async def test_preconditions_guard_a_deletion(served: Served) -> None:
    made = await make(served, "a")
    with pytest.raises(Conflict, match="the UID in the precondition"):
        await served.client.delete(CONFIG_MAPS, "default", "a", uid="other")
    stale = {"preconditions": {"resourceVersion": "1"}}
    reply, status = await served.call("DELETE", CONFIG_MAPS.path("default", "a"), stale)
    assert (reply.status, status["reason"]) == (409, "Conflict")
    with pytest.raises(Invalid, match="propagationPolicy"):
        await served.client.delete(CONFIG_MAPS, "default", "a", propagation="Sideways")
    await served.client.delete(CONFIG_MAPS, "default", "a", uid=made["metadata"]["uid"])
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await served.client.delete(CONFIG_MAPS, "default", "a")


async def test_a_collection_is_deleted_as_selected(served: Served) -> None:
    for name, tier in (("a", "x"), ("b", "x"), ("c", "y")):
        await served.client.create(PODS, "default", pod(name, labels={"tier": tier}))
    reply, content = await served.call("DELETE", PODS.path("default"), labelSelector="tier=x")
    assert (reply.status, content["kind"]) == (200, "PodList")
    assert [item["metadata"]["name"] for item in (await served.client.list(PODS, "default")).items] == ["c"]


async def test_a_namespace_goes_after_all_it_holds(served: Served) -> None:
    await with_widgets(served)
    await served.client.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    )
    held = widget("a")
    held["metadata"]["finalizers"] = ["test/hold"]
    await served.client.create(WIDGETS, "team", held)
    await served.client.create(PODS, "team", pod("p"))
    leaving = await served.client.delete(NAMESPACES, None, "team")
    assert leaving["status"]["phase"] == "Terminating"
    assert not await exists(served, PODS, "p", "team")
    assert await exists(served, NAMESPACES, "team", None)
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await served.client.create(PODS, "team", pod("q"))
    await served.client.patch(WIDGETS, "team", "a", {"metadata": {"finalizers": None}})
    assert not await exists(served, NAMESPACES, "team", None)
    assert await exists(served, NAMESPACES, "default", None)


async def test_the_first_namespaces_stay(served: Served) -> None:
    with pytest.raises(Forbidden, match="this namespace may not be deleted"):
        await served.client.delete(NAMESPACES, None, "default")


async def test_a_definition_goes_after_its_objects(served: Served) -> None:
    await with_widgets(served)
    for number in range(300):
        await served.client.create(WIDGETS, "default", widget(f"w{number}"))
    await served.client.delete(CRDS, None, "widgets.example.org")
    assert not await exists(served, CRDS, "widgets.example.org", None)
    with pytest.raises(NotFound, match="could not find the requested resource"):
        await served.client.list(WIDGETS)
    await with_widgets(served)
    assert (await served.client.list(WIDGETS)).items == []


async def test_what_a_crash_left_undone_is_done_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "objects.db"
    async with Store.open(path) as store:
        async with serving(store) as served:
            owner = await make(served, "owner")
            await with_widgets(served)
            await served.client.create(WIDGETS, "default", widget("w", size=7))
            ghost = config("ghost")
            ghost["metadata"] |= {"uid": "ghost", "ownerReferences": [{**owned_by(owner), "uid": "gone"}]}
        # No collector runs any more: the store closes with work left over.
        ghost["metadata"]["namespace"] = "default"
        await store.write(lambda transaction: transaction.put("/configmaps", ghost))
    async with Store.open(path) as store, serving(store) as served:
        for _ in range(200):
            if store.committed.find_key_by_uid("ghost") is None:
                break
            await asyncio.sleep(0.01)
        assert not await exists(served, CONFIG_MAPS, "ghost")
        assert await exists(served, CONFIG_MAPS, "owner")
        assert (await served.client.get(WIDGETS, "default", "w"))["spec"]["size"] == 7
