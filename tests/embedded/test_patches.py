from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.apiserver.patch.json_patch import is_json_equal
from pliant.embedded.apiserver.patch.patches import apply_merge_patch, apply_patch
from pliant.embedded.schema import deep_copy
from pliant.errors import ApiError, BadRequest, Invalid
from pliant.kube.transport.base import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

NAMES = st.sampled_from(["a", "b", "c", "d/e", "f~g"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


def has_null_member(value: Any) -> bool:
    if isinstance(value, dict):
        return any(member is None or has_null_member(member) for member in value.values())
    return isinstance(value, list) and any(map(has_null_member, value))


def without_null_members_in_lists(value: Any, *, is_in_list: bool = False) -> Any:
    if isinstance(value, dict):
        members = {name: without_null_members_in_lists(each, is_in_list=is_in_list) for name, each in value.items()}
        return {name: each for name, each in members.items() if each is not None or not is_in_list}
    if isinstance(value, list):
        return [without_null_members_in_lists(each, is_in_list=True) for each in value]
    return value


PLAIN_PATCHES = OBJECTS.map(without_null_members_in_lists)
"""Patches without nulls in the objects of lists: merge patches treat them differently, depending on what was there."""


def test_objects_in_lists_of_merge_patches_lose_their_nulls_except_in_place_of_an_object() -> None:
    patch = {"a": [{"b": None, "c": [{"d": None}]}, None]}
    for target in ({}, {"a": None}, {"a": [1]}, {"a": "x"}):
        assert apply_merge_patch(target, patch) == {"a": [{"c": [{}]}, None]}
    assert apply_merge_patch({"a": {"x": 1}}, patch) == patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_follow_the_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert apply_patch(MERGE_PATCH, target, patch) == result


@given(OBJECTS, PLAIN_PATCHES)
def test_merging_twice_is_merging_once(target: dict[str, Any], patch: dict[str, Any]) -> None:
    once = apply_merge_patch(target, patch)
    assert is_json_equal(apply_merge_patch(once, patch), once)


@given(OBJECTS, OBJECTS)
def test_a_merged_object_has_what_the_patch_says_and_keeps_the_rest(
    target: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = deep_copy(target)
    result = apply_merge_patch(target, patch)
    assert is_json_equal(target, before)
    for name, value in patch.items():
        assert (name in result) is (value is not None)
    for name in target.keys() - patch.keys():
        assert is_json_equal(result[name], target[name])


@given(OBJECTS)
def test_an_empty_patch_changes_nothing_and_everything_merges_into_nothing(obj: dict[str, Any]) -> None:
    assert is_json_equal(apply_merge_patch(obj, {}), obj)
    if not has_null_member(obj):
        assert is_json_equal(apply_merge_patch({}, obj), obj)


@given(OBJECTS, PLAIN_PATCHES)
def test_strategic_merge_is_plain_merge_for_kinds_without_keyed_lists(
    target: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert is_json_equal(apply_patch(STRATEGIC_MERGE_PATCH, target, patch), apply_merge_patch(target, patch))


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/b", "value": 1}], {"a": [1, 2], "b": 1}),
        ([{"op": "add", "path": "/a", "value": 1}], {"a": 1}),
        ([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "add", "path": "/a/2", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "add", "path": "/b"}], {"a": [1, 2], "b": None}),
        ([{"op": "test", "path": "/missing", "value": None}], {"a": [1, 2]}),
        ([{"op": "replace", "path": "", "value": {"x": 1}}], {"x": 1}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "remove", "path": "/a"}], {}),
        ([{"op": "replace", "path": "/a/1", "value": {"x": 1}}], {"a": [1, {"x": 1}]}),
        ([{"op": "move", "from": "/a/0", "path": "/b"}], {"a": [2], "b": 1}),
        ([{"op": "move", "from": "/a", "path": "/a"}], {"a": [1, 2]}),
        ([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "remove", "path": "/b/0"}], {"a": [1, 2], "b": [2]}),
        ([{"op": "test", "path": "/a", "value": [1, 2]}], {"a": [1, 2]}),
        ([{"op": "add", "path": "/x~1y~0", "value": 1}], {"a": [1, 2], "x/y~": 1}),
        ([{"op": "add", "path": "/x~01", "value": 1}], {"a": [1, 2], "x~1": 1}),
    ],
)
def test_every_json_patch_operation_works(operations: Any, result: Any) -> None:
    assert apply_patch(JSON_PATCH, {"a": [1, 2]}, operations) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": [1]},
        {"op": "test", "path": "/t", "value": 1},
        {"op": "test", "path": "/missing/x", "value": None},
        {"op": "add", "path": "", "value": {"x": 1}},
        {"op": "remove", "path": ""},
        {"op": "copy", "from": "", "path": "/b"},
        {"op": "replace", "path": "", "value": 1},
        {"op": "remove", "path": "/missing"},
        {"op": "remove", "path": "/a/-"},
        {"op": "remove", "path": "/a/2"},
        {"op": "replace", "path": "/a/01", "value": 1},
        {"op": "add", "path": "/missing/x", "value": 1},
        {"op": "add", "path": "/a/3", "value": 1},
        {"op": "add", "path": "/t/x", "value": 1},
        {"op": "move", "from": "/missing", "path": "/b"},
        {"op": "move", "from": "/o", "path": "/o/inside"},
        {"op": "copy", "from": "/missing/x", "path": "/b"},
    ],
)
def test_an_operation_that_does_not_apply_is_refused_and_changes_nothing(operation: dict[str, Any]) -> None:
    target = {"a": [1, 2], "t": True, "o": {}}
    with pytest.raises(Invalid):
        apply_patch(JSON_PATCH, target, [{"op": "add", "path": "/new", "value": 1}, operation])
    assert target == {"a": [1, 2], "t": True, "o": {}}


def test_an_absent_member_can_be_replaced_and_is_copied_as_null() -> None:
    operations = [{"op": "replace", "path": "/b", "value": 2}, {"op": "copy", "from": "/missing", "path": "/c"}]
    assert apply_patch(JSON_PATCH, {"a": 1}, operations) == {"a": 1, "b": 2, "c": None}


def test_a_failed_test_says_which() -> None:
    with pytest.raises(Invalid, match="testing value /a failed"):
        apply_patch(JSON_PATCH, {"a": 1}, [{"op": "test", "path": "/a", "value": 2}])


@pytest.mark.parametrize("patch", [{}, ["add"], [{"op": "add", "path": 5}]])
def test_what_is_no_json_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        apply_patch(JSON_PATCH, {"a": 1}, patch)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "shrug", "path": "/a"},
        {"path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "remove"},
        {"op": "copy", "path": "/b"},
    ],
)
def test_an_operation_that_is_none_does_not_apply(operation: Any) -> None:
    with pytest.raises(Invalid):
        apply_patch(JSON_PATCH, {"a": 1}, [operation])


@pytest.mark.parametrize("form", [MERGE_PATCH, STRATEGIC_MERGE_PATCH])
def test_a_merge_patch_must_be_an_object(form: str) -> None:
    with pytest.raises(BadRequest):
        apply_patch(form, {}, [])


def test_an_unknown_form_of_patch_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        apply_patch(APPLY_PATCH, {}, {})
    assert caught.value.status == 415


@given(OBJECTS, OBJECTS)
def test_a_json_patch_can_turn_any_object_into_any_other(source: dict[str, Any], goal: dict[str, Any]) -> None:
    def pointer(name: str) -> str:
        return "/" + name.replace("~", "~0").replace("/", "~1")

    patch = [{"op": "remove", "path": pointer(name)} for name in source if name not in goal]
    patch += [{"op": "add", "path": pointer(name), "value": value} for name, value in goal.items()]
    patch += [{"op": "test", "path": pointer(name), "value": value} for name, value in goal.items()]
    assert is_json_equal(apply_patch(JSON_PATCH, source, patch), goal)


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}]},
    "spec": {
        "containers": [
            {"name": "main", "image": "one", "env": [{"name": "A", "value": "1"}], "args": ["x"]},
            {"name": "side", "ports": [{"containerPort": 80, "name": "web"}]},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("patch", "path", "result"),
    [
        (
            {"spec": {"containers": [{"name": "main", "image": "two"}]}},
            ("spec", "containers", 0),
            {"name": "main", "image": "two", "env": [{"name": "A", "value": "1"}], "args": ["x"]},
        ),
        (
            {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}], "args": ["y"]}]}},
            ("spec", "containers", 0),
            {
                "name": "main",
                "image": "one",
                "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}],
                "args": ["y"],
            },
        ),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "side"}],
                    "containers": [{"name": "main", "$patch": "delete"}],
                }
            },
            ("spec", "containers"),
            [{"name": "side", "ports": [{"containerPort": 80, "name": "web"}]}],
        ),
        ({"spec": {"containers": [{"$patch": "replace"}, {"name": "new"}]}}, ("spec", "containers"), [{"name": "new"}]),
        (
            {"spec": {"containers": [{"name": "side", "ports": [{"containerPort": 81}]}]}},
            ("spec", "containers", 1, "ports"),
            [{"containerPort": 81}, {"containerPort": 80, "name": "web"}],
        ),
        (
            {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
            ("spec", "volumes"),
            [{"name": "v", "hostPath": {"path": "/x"}}],
        ),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "side"}, {"name": "new"}],
                    "containers": [{"name": "new"}],
                }
            },
            ("spec", "containers"),
            [POD["spec"]["containers"][0], POD["spec"]["containers"][1], {"name": "new"}],
        ),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "side"}, {"name": "new"}],
                    "containers": [{"name": "main", "$patch": "delete"}, {"name": "new"}],
                }
            },
            ("spec", "containers"),
            [POD["spec"]["containers"][1], {"name": "new"}],
        ),
        ({"metadata": {"finalizers": ["b", "c"]}}, ("metadata", "finalizers"), ["a", "b", "c"]),
        (
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]}},
            ("metadata", "finalizers"),
            ["c", "b"],
        ),
        (
            {"metadata": {"$setElementOrder/finalizers": ["c", "b", "a"], "finalizers": ["c"]}},
            ("metadata", "finalizers"),
            ["c", "b", "a"],
        ),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, ("metadata", "finalizers"), ["b"]),
        (
            {"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}, {"uid": "2"}]}},
            ("metadata", "ownerReferences"),
            [{"uid": "2"}],
        ),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "New", "status": "True"}]}},
            ("status", "conditions"),
            [
                {"type": "Ready", "status": "True"},
                {"type": "New", "status": "True"},
                {"type": "PodScheduled", "status": "True"},
            ],
        ),
        ({"status": {"$patch": "replace", "phase": "Failed"}}, ("status",), {"phase": "Failed"}),
        ({"spec": {"volumes": None, "nodeName": "n"}}, ("spec", "nodeName"), "n"),
    ],
)
def test_strategic_patches_merge_lists_by_key(patch: Any, path: tuple[Any, ...], result: Any) -> None:
    before = deep_copy(POD)
    value: Any = apply_patch(STRATEGIC_MERGE_PATCH, POD, patch)
    for step in path:
        value = value[step]
    assert value == result
    assert before == POD


def test_a_strategic_patch_may_remove_a_part_by_directive() -> None:
    assert apply_patch(STRATEGIC_MERGE_PATCH, POD, {"status": {"$patch": "delete"}})["status"] == {}
    assert "none" not in apply_patch(STRATEGIC_MERGE_PATCH, POD, {"none": {"$patch": "delete"}})


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"containers": [{"image": "nameless"}]}},
        {"spec": {"containers": [["list"]]}},
        {"spec": {"containers": ["text"]}},
        {"spec": {"containers": [{"name": "main", "$patch": "shuffle"}]}},
        {"spec": {"$patch": "shuffle"}},
        {"$patch": None},
        {"spec": {"$retainKeys": ["volumes"], "nodeName": "n"}},
        {"spec": {"$setElementOrder/containers": 1}},
        {"spec": {"$setElementOrder/containers": [{"name": "main"}], "containers": [{"name": "new"}]}},
        {"metadata": {"$setElementOrder/finalizers": ["a", "b"], "finalizers": ["b", "a"]}},
    ],
)
def test_a_strategic_patch_that_makes_no_sense_is_refused(patch: Any) -> None:
    with pytest.raises(ApiError):
        apply_patch(STRATEGIC_MERGE_PATCH, POD, patch)


def test_only_retained_keys_of_a_wrong_format_are_a_bad_request() -> None:
    with pytest.raises(BadRequest):
        apply_patch(STRATEGIC_MERGE_PATCH, POD, {"spec": {"$retainKeys": ["volumes"], "nodeName": "n"}})


def test_an_unknown_directive_is_an_unknown_field() -> None:
    patched = apply_patch(STRATEGIC_MERGE_PATCH, POD, {"spec": {"$whatever": 1}})
    assert patched == {**POD, "spec": {**POD["spec"], "$whatever": 1}}


DIRECTIVES = st.sampled_from(
    (
        *("$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"),
        *("containers", "env", "finalizers", "metadata", "name", "ports", "spec", "volumes"),
    )
)
PATCHES = st.recursive(
    st.sampled_from([None, 1, "a", "delete", "replace", "main"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(DIRECTIVES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(DIRECTIVES, PATCHES, max_size=3))
def test_a_strategic_patch_applies_or_is_refused(patch: dict[str, Any]) -> None:
    before = deep_copy(POD)
    with suppress(ApiError):
        assert isinstance(apply_patch(STRATEGIC_MERGE_PATCH, POD, patch), dict)
    assert before == POD
