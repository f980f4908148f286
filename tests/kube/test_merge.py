"""The smallest merge patch."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pliant.embedded.apiserver.patch.patches import apply_patch
from pliant.kube.codec import build_merge_patch
from pliant.kube.transport.base import MERGE_PATCH

scalars = st.one_of(st.booleans(), st.integers(), st.text(max_size=3))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner)),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=2), values, max_size=5)


@given(objects, objects)
def test_applying_the_patch_gives_what_was_wanted(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_patch(MERGE_PATCH, before, build_merge_patch(before, after)) == after


@given(objects)
def test_nothing_to_change_is_an_empty_patch(value: dict[str, Any]) -> None:
    assert build_merge_patch(value, value) == {}


def test_only_what_differs_is_sent() -> None:
    before = {"a": 1, "b": {"c": 2, "d": 3}, "gone": 0}
    assert build_merge_patch(before, {"a": 1, "b": {"c": 2, "d": 4}}) == {"b": {"d": 4}, "gone": None}
