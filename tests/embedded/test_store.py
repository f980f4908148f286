"""The store: versions, group commit, durability."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from pliant.embedded.storage.object_index import ObjectIndex
from pliant.embedded.storage.store import Store, Transaction
from pliant.embedded.storage.stored_objects import ObjectChange, ObjectKey, StoredObject
from pliant.errors import Conflict, Gone, ServerError

PODS = "/pods"


def pod(name: str, namespace: str = "default", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}"},
    } | more


async def put(store: Store, obj: dict[str, Any]) -> StoredObject:
    return await store.run_transaction(lambda transaction: transaction.put(PODS, obj))


async def remove(store: Store, name: str) -> StoredObject:
    return await store.run_transaction(lambda transaction: transaction.remove(PODS, pod(name)))


class GatedJournal:
    """Commits only when told to; fails when told to."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.groups: list[list[ObjectChange]] = []
        self.failure: Exception | None = None

    def commit(self, events: Iterable[ObjectChange]) -> None:
        assert self.gate.wait(5)
        if self.failure is not None:
            raise self.failure
        self.groups.append(list(events))

    def close(self) -> None:
        """Nothing is held."""


async def test_versions_count_up_over_all_resources() -> None:
    store = Store.in_memory()
    first = await put(store, pod("a"))
    second = await store.run_transaction(
        lambda transaction: transaction.put("/nodes", {"metadata": {"name": "n", "uid": "n"}})
    )
    assert (first.version, second.version) == (1, 2)
    assert store.committed.version == 2
    assert first.decode()["metadata"]["resourceVersion"] == "1"


async def test_a_memory_store_never_suspends() -> None:
    store = Store.in_memory()
    writing = put(store, pod("a"))
    with pytest.raises(StopIteration):
        writing.send(None)
    assert store.committed.get(ObjectKey(PODS, "default", "a")) is not None


async def test_lists_are_ordered_and_kept_apart_by_namespace() -> None:
    store = Store.in_memory()
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "b"), ("ab", "a")]:
        await put(store, pod(name, namespace))
    assert [record.key[1:] for record in store.committed.list_objects(PODS)] == [
        ("a", "b"),
        ("a", "z"),
        ("ab", "a"),
        ("b", "x"),
    ]
    assert [record.key.name for record in store.committed.list_objects(PODS, "a")] == ["b", "z"]
    assert not store.committed.list_objects(PODS, "c")
    assert store.committed.list_objects(PODS, "ab")


async def test_an_earlier_list_can_be_had_until_it_is_forgotten() -> None:
    store = Store.in_memory(max_history=4)
    await put(store, pod("a", spec={"nodeName": ""}))
    await put(store, pod("b"))
    await put(store, pod("a", spec={"nodeName": "n"}))
    await remove(store, "b")
    await put(store, pod("c"))
    then = store.committed.list_objects_at(2, PODS)
    assert [(record.key.name, record.version) for record in then] == [("a", 1), ("b", 2)]
    for _ in range(4):
        await put(store, pod("c"))
    with pytest.raises(Gone, match="too old resource version"):
        store.committed.list_objects_at(2, PODS)


async def test_owners_and_uids_are_indexed_as_long_as_they_live() -> None:
    store = Store.in_memory()
    owned = pod("child")
    owned["metadata"]["ownerReferences"] = [{"uid": "u-boss"}]
    await put(store, owned)
    assert store.committed.dependents("u-boss") == (ObjectKey(PODS, "default", "child"),)
    assert store.committed.find_key_by_uid("u-child") == ObjectKey(PODS, "default", "child")
    await put(store, pod("child"))
    assert store.committed.dependents("u-boss") == ()
    await remove(store, "child")
    assert store.committed.find_key_by_uid("u-child") is None


async def test_nothing_is_seen_or_answered_before_its_commit() -> None:
    journal = GatedJournal()
    async with Store(ObjectIndex(0, 100), journal).run_writer() as store:
        told: list[int] = []
        store.add_listener(lambda events: told.extend(event.version for event in events))
        watcher = asyncio.create_task(store.committed.history(PODS).wait_changed())
        writer = asyncio.create_task(put(store, pod("a")))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not writer.done()
        assert not watcher.done()
        assert store.committed.get(ObjectKey(PODS, "default", "a")) is None
        assert (store.committed.version, told) == (0, [])
        journal.gate.set()
        await writer
        await watcher
        assert (store.committed.version, told) == (1, [1])


async def test_writes_of_one_turn_share_a_commit_and_see_each_other() -> None:
    journal = GatedJournal()
    key = ObjectKey(PODS, "default", "a")

    def grow(transaction: Transaction) -> int:
        current = transaction.get(key)
        size = current.decode()["size"] + 1 if current else 0
        transaction.put(PODS, pod("a", size=size))
        return int(size)

    async with Store(ObjectIndex(0, 100), journal).run_writer() as store:
        writers = [asyncio.create_task(store.run_transaction(grow)) for _ in range(20)]
        journal.gate.set()
        assert await asyncio.gather(*writers) == list(range(20))
    assert sum(len(group) for group in journal.groups) == 20
    assert len(journal.groups) == 1


async def test_a_refusal_built_on_an_undecided_write_waits_for_it() -> None:
    journal = GatedJournal()
    key = ObjectKey(PODS, "default", "a")

    def create(transaction: Transaction) -> StoredObject:
        if transaction.get(key):
            raise Conflict(409, "AlreadyExists", "there")
        return transaction.put(PODS, pod("a"))

    async with Store(ObjectIndex(0, 100), journal).run_writer() as store:
        first = asyncio.create_task(store.run_transaction(create))
        second = asyncio.create_task(store.run_transaction(create))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not second.done()
        journal.gate.set()
        await first
        with pytest.raises(Conflict):
            await second


async def test_a_failed_commit_refuses_everything_decided_on_top_of_it() -> None:
    journal = GatedJournal()
    journal.failure = sqlite3.OperationalError("database or disk is full")
    async with Store(ObjectIndex(0, 100), journal).run_writer() as store:
        first = asyncio.create_task(put(store, pod("a")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        second = asyncio.create_task(put(store, pod("b")))
        await asyncio.sleep(0)
        journal.gate.set()
        for writer in (first, second):
            with pytest.raises(ServerError, match="disk is full"):
                await writer
        assert store.committed.list_objects(PODS) == []
        journal.failure = None
        assert (await put(store, pod("a"))).version == 3
        assert store.committed.history(PODS).changes_since(0)[0].version == 3


async def test_a_caller_who_leaves_does_not_take_the_write_back() -> None:
    journal = GatedJournal()
    async with Store(ObjectIndex(0, 100), journal).run_writer() as store:
        writer = asyncio.create_task(put(store, pod("a")))
        await asyncio.sleep(0)
        writer.cancel()
        journal.gate.set()
        await put(store, pod("b"))
        assert [record.key.name for record in store.committed.list_objects(PODS)] == ["a", "b"]


async def test_a_dry_run_changes_nothing() -> None:
    store = Store.in_memory()
    await store.run_transaction(lambda transaction: transaction.put(PODS, pod("a")), dry_run=True)
    assert (store.committed.version, store.committed.list_objects(PODS)) == (0, [])
    assert (await put(store, pod("a"))).version == 1
