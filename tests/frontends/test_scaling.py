"""What a job may say about its size in annotations."""

from __future__ import annotations

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.scaling import (
    AUTOSCALE_ANNOTATION,
    RESIZE_MODE_ANNOTATION,
    parse_autoscaling,
    with_scaling_annotations,
)
from pliant.model.job import AutoscalingSpec, ResizeMode
from tests.builders import make_group


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", AutoscalingSpec()),
        ("off", AutoscalingSpec(is_enabled=False)),
        (" ON , Recommend", AutoscalingSpec(is_enabled=True, is_advice_only=True)),
        ("goodput,recommend", AutoscalingSpec(policy="goodput", is_advice_only=True)),
        ("fair,fair,", AutoscalingSpec(policy="fair")),
    ],
)
def test_words_in_any_order_and_case_are_understood(text: str, meant: AutoscalingSpec) -> None:
    assert parse_autoscaling({AUTOSCALE_ANNOTATION: text}) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("banana", "is not one of on, off, recommend, edl, fair, goodput"),
        ("of", "did you mean off?"),
        ("on,off", "cannot have both off and on: remove one of them"),
        ("fair, edl", "cannot have both edl and fair: remove one of them"),
    ],
)
def test_what_makes_no_sense_is_answered_with_the_field(text: str, said: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_autoscaling({AUTOSCALE_ANNOTATION: text})
    assert f"metadata.annotations.{AUTOSCALE_ANNOTATION}" in str(refusal.value)
    assert said in str(refusal.value)


def test_the_way_of_resizing_may_be_chosen_for_elastic_groups_alone() -> None:
    groups = (make_group(name="ps"), make_group(name="worker", is_elastic=True))
    fixed, elastic = with_scaling_annotations(groups, {RESIZE_MODE_ANNOTATION: "Fixed"})
    assert (fixed.resize_mode, elastic.resize_mode) == (ResizeMode.JOIN, ResizeMode.FIXED)
    assert elastic.fixed_size_reason == "set by annotation pliant/resize"
    with pytest.raises(InvalidSpec, match="pliant/resize"):
        with_scaling_annotations(groups, {RESIZE_MODE_ANNOTATION: "later"})
