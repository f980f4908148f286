from __future__ import annotations

from typing import Any

from pliant.kube.cache.store import ObjectStore
from pliant.kube.objects import ObjectMeta, Pod


def pod(name: str, version: int, *, uid: str = "", **labels: str) -> Pod:
    meta = ObjectMeta(name=name, namespace="default", uid=uid or name, resource_version=str(version), labels=labels)
    return Pod(metadata=meta)


def version_of(store: ObjectStore[Pod], name: str) -> int | None:
    found = store.get("default", name)
    return int(found.metadata.resource_version) if found else None


def tombstones(store: ObjectStore[Pod]) -> set[str]:
    return {uid for uid, _ in store._tombstones.values()}


def test_a_write_of_ours_is_seen_at_once() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([], 10)
    store.apply_own_write(pod("a", 11))
    assert version_of(store, "a") == 11


def test_a_late_event_older_than_our_write_changes_nothing() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5)], 10)
    store.apply_own_write(pod("a", 15))
    store.apply_watched_write(pod("a", 12))
    assert version_of(store, "a") == 15


def test_our_own_event_coming_back_is_no_change() -> None:
    changes: list[Any] = []
    store: ObjectStore[Pod] = ObjectStore(on_change=lambda old, new: changes.append((old, new)))
    store.apply_own_write(pod("a", 15))
    store.apply_watched_write(pod("a", 15))
    assert len(changes) == 1


def test_a_reply_that_comes_after_newer_events_changes_nothing() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_watched_write(pod("a", 15))
    store.apply_own_write(pod("a", 12))
    assert version_of(store, "a") == 15


def test_a_reply_that_comes_after_the_end_of_its_object_revives_nothing() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_watched_write(pod("a", 10))
    store.apply_watched_deletion(pod("a", 14))
    store.apply_own_write(pod("a", 12))
    assert store.get("default", "a") is None


def test_an_event_that_is_told_again_revives_nothing() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_watched_write(pod("a", 10))
    store.apply_watched_deletion(pod("a", 14))
    store.apply_watched_write(pod("a", 10))
    assert store.get("default", "a") is None
    assert store.resource_version == 14


def test_a_list_taken_before_our_write_does_not_undo_it() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("changed", 5)], 10)
    store.apply_own_write(pod("made", 20))
    store.apply_own_write(pod("changed", 21))
    store.apply_complete_list([pod("changed", 5)], 15)
    assert version_of(store, "made") == 20
    assert version_of(store, "changed") == 21


def test_a_list_taken_after_our_write_tells_that_it_is_gone() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([], 10)
    store.apply_own_write(pod("made", 20))
    store.apply_complete_list([], 25)
    assert store.all() == ()


def test_what_we_deleted_is_gone_at_once_and_late_events_do_not_revive_it() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5)], 10)
    store.apply_own_deletion("default", "a", "a")
    assert store.get("default", "a") is None
    store.apply_watched_write(pod("a", 11))
    store.apply_own_write(pod("a", 12))
    store.apply_complete_list([pod("a", 12)], 12)
    store.apply_watched_write(pod("a", 13))
    assert store.get("default", "a") is None


def test_deleting_one_incarnation_leaves_the_next_one_alone() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5, uid="first")], 10)
    store.apply_own_deletion("default", "a", "first")
    store.apply_own_write(pod("a", 20, uid="second"))
    store.apply_watched_deletion(pod("a", 15, uid="first"))
    store.apply_watched_deletion(pod("a", 25, uid="first"))
    store.apply_own_deletion("default", "a", "first")
    assert version_of(store, "a") == 20


def test_a_tombstone_lasts_until_the_watch_confirms_it() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5), pod("b", 6)], 10)
    store.apply_own_deletion("default", "a", "a")
    store.apply_own_deletion("default", "b", "b")
    store.apply_own_deletion("default", "never-seen", "c")
    assert tombstones(store) == {"a", "b"}
    store.apply_watched_deletion(pod("a", 12))
    assert tombstones(store) == {"b"}
    store.apply_complete_list([], 15)
    assert not store._tombstones


def test_a_list_older_than_the_deleted_object_does_not_confirm_its_end() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([], 10)
    store.apply_own_write(pod("a", 20))
    store.apply_own_deletion("default", "a", "a")
    store.apply_complete_list([], 15)
    store.apply_watched_write(pod("a", 20))
    assert store.get("default", "a") is None
    store.apply_watched_deletion(pod("a", 21))
    assert not store._tombstones


def test_a_list_from_before_two_incarnations_ago_revives_neither() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_own_write(pod("a", 20, uid="second"))
    store.apply_own_deletion("default", "a", "second")
    store.apply_complete_list([pod("a", 10, uid="first")], 15)
    assert store.get("default", "a") is None
    store.apply_watched_deletion(pod("a", 16, uid="first"))
    store.apply_watched_write(pod("a", 20, uid="second"))
    assert store.get("default", "a") is None
    store.apply_watched_deletion(pod("a", 21, uid="second"))
    assert not store._tombstones


def test_an_object_that_we_brought_back_into_the_selection_survives_the_event_of_its_leaving() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5)], 10)
    store.apply_own_write(pod("a", 20))
    store.apply_watched_deletion(pod("a", 15))
    assert version_of(store, "a") == 20


def test_indexes_follow_every_change() -> None:
    store: ObjectStore[Pod] = ObjectStore({"app": lambda pod: pod.metadata.labels.values()})
    store.apply_complete_list([pod("a", 1, x="red"), pod("b", 2, x="red")], 10)
    assert [p.metadata.name for p in store.by_index("app", "red")] == ["a", "b"]
    store.apply_watched_write(pod("a", 11, x="blue"))
    assert [p.metadata.name for p in store.by_index("app", "red")] == ["b"]
    assert [p.metadata.resource_version for p in store.by_index("app", "blue")] == ["11"]
    store.apply_own_write(pod("a", 12, x="blue", y="red"))
    assert [p.metadata.name for p in store.by_index("app", "red")] == ["b", "a"]
    store.apply_own_deletion("default", "a", "a")
    assert store.by_index("app", "blue") == ()
    assert set(store._indexes["app"]) == {"red"}


def test_an_older_list_means_a_new_cluster_and_replaces_everything() -> None:
    store: ObjectStore[Pod] = ObjectStore()
    store.apply_complete_list([pod("a", 5), pod("b", 50)], 100)
    store.apply_own_write(pod("c", 120))
    store.apply_own_deletion("default", "b", "b")
    store.apply_complete_list([pod("b", 3, uid="other")], 7)
    assert [p.metadata.uid for p in store.all()] == ["other"]
    store.apply_watched_write(pod("b", 8, uid="other"))
    assert version_of(store, "b") == 8
