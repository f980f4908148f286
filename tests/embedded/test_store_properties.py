"""Whatever is written in whatever order: lists, watches and versions agree."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pliant.embedded.storage.store import Store
from pliant.embedded.storage.stored_objects import ObjectKey, StoredObject
from pliant.errors import Gone

T = TypeVar("T")
NAMES = st.sampled_from(["a", "b", "c"])
NAMESPACES = st.sampled_from(["one", "two"])
PODS = "/pods"


def run_without_waiting(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("a memory store waited")


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.store = Store.in_memory(max_history=8)
        self.model: dict[ObjectKey, int] = {}
        self.past: dict[int, dict[ObjectKey, int]] = {0: {}}

    def note(self) -> None:
        self.past[self.store.committed.version] = dict(self.model)

    @rule(namespace=NAMESPACES, name=NAMES)
    def put(self, namespace: str, name: str) -> None:
        obj = {"metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}}
        record: StoredObject = run_without_waiting(
            self.store.run_transaction(lambda transaction: transaction.put(PODS, obj))
        )
        assert record.version == max(self.past) + 1
        self.model[record.key] = record.version
        self.note()

    @rule(namespace=NAMESPACES, name=NAMES)
    def remove(self, namespace: str, name: str) -> None:
        key = ObjectKey(PODS, namespace, name)
        current = self.store.committed.get(key)
        if current is not None:
            run_without_waiting(
                self.store.run_transaction(lambda transaction: transaction.remove(PODS, current.decode()))
            )
            del self.model[key]
            self.note()

    @invariant()
    def the_list_is_what_was_written(self) -> None:
        listed = {record.key: record.version for record in self.store.committed.list_objects(PODS)}
        assert listed == self.model

    @invariant()
    def any_past_list_followed_by_its_watch_gives_the_present(self) -> None:
        history = self.store.committed.history(PODS)
        for version, then in self.past.items():
            try:
                events = history.changes_since(version)
            except Gone:
                assert version < history.oldest_version
                continue
            assert {r.key: r.version for r in self.store.committed.list_objects_at(version, PODS)} == then
            state = dict(then)
            for event in events:
                assert event.version > version
                assert (event.before is None and not event.is_deleted) == (event.after.key not in state)
                if event.is_deleted:
                    del state[event.after.key]
                else:
                    state[event.after.key] = event.version
            assert state == self.model


TestStoreMachine = StoreMachine.TestCase
