from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from pliant.errors import InvalidSpec
from pliant.frontends.aitrainingjob.types import AITrainingJobSpec
from pliant.frontends.spec.decoding import decode


class Colour(StrEnum):
    RED = "red"


class Part(Struct, frozen=True, rename="camel"):
    part_name: str
    count: Annotated[int, Meta(ge=1, le=3)] = 1


class Thing(Struct, frozen=True):
    parts: list[Part] = []
    by_name: dict[str, Part] = {}
    colour: Colour | None = None
    since: datetime | None = None
    code: Annotated[str, Meta(pattern="^x")] = "x"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (5, "thing: must be a mapping, got 5"),
        ({"parts": {}}, "thing.parts: must be a list, got {}"),
        ({"parts": [{"partName": "a"}, {}]}, "thing.parts[1].partName: is required"),
        ({"parts": [{"partName": "a", "count": 4}]}, "thing.parts[0].count: must be 3 or less, got 4"),
        ({"by_name": [1]}, "thing.by_name: must be a mapping, got [1]"),
        (
            {"by_name": {"a": {"partName": "a"}, "b": {"partName": 1}}},
            "thing.by_name.b.partName: must be a string, got 1",
        ),
        ({"colour": ["red"]}, 'thing.colour: ["red"] is not one of red'),
        ({"since": 5, "colour": "red"}, "thing.since: must be a time such as 2026-01-31T12:00:00Z, got 5"),
        (
            {"parts": [{"partName": "a", "count": 2}], "by_name": {"a": {"partName": "a"}}, "colour": "re"},
            'thing.colour: "re" is not one of red; did you mean red?',
        ),
        ({"since": "2026-01-01T12:00:00Z", "code": 5}, "thing.code: must be a string, got 5"),
        ({"code": "y"}, "thing: Expected `str` matching regex '^x' - at `$.code`"),
    ],
)
def test_the_first_fault_is_named_by_its_path(raw: Any, message: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        decode(Thing, raw, "thing")
    assert str(refusal.value) == message


def test_what_fits_is_read() -> None:
    raw = {
        "parts": [{"partName": "a", "count": None}],
        "by_name": {"b": {"partName": "b", "count": 2, "weight": 5}},
        "colour": "red",
        "since": "2026-01-01T12:00:00Z",
    }
    thing = decode(Thing, raw, "thing")
    assert (thing.parts, thing.by_name, thing.colour) == ([Part("a")], {"b": Part("b", 2)}, Colour.RED)


def test_nothing_at_all_is_read_as_an_empty_thing() -> None:
    assert decode(Thing, None, "thing") == Thing()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "All", "None", "x", "137"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "spec", "name"]), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    ["replicaSpecs", "elastic", "timeLimit", "failPolicy", "cleanPodPolicy", "restartingExitCode", "faultTolerant"]
)


@given(st.dictionaries(FIELDS, JSON))
def test_whatever_is_written_is_read_or_refused(raw: dict[str, Any]) -> None:
    with suppress(InvalidSpec):
        decode(AITrainingJobSpec, raw, "spec")
