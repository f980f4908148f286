"""What a job may say about its size in annotations."""

from __future__ import annotations

import pytest

from pliant.errors import InvalidSpec
from pliant.frontends.scaling import AUTOSCALE, RESIZE, autoscaling_in, scaled_by
from pliant.model.job import Autoscaling, Resize
from tests.builders import make_group


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", Autoscaling()),
        ("off", Autoscaling(is_wanted=False)),
        (" ON , Recommend", Autoscaling(is_wanted=True, only_advice=True)),
        ("goodput,recommend", Autoscaling(policy="goodput", only_advice=True)),
        ("fair,fair,", Autoscaling(policy="fair")),
    ],
)
def test_words_in_any_order_and_case_are_understood(text: str, meant: Autoscaling) -> None:
    assert autoscaling_in({AUTOSCALE: text}) == meant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("banana", "is not one of on, off, recommend, edl, fair, goodput"),
        ("of", "did you mean off?"),
        ("on,off", "says both off and on: keep one"),
        ("fair, edl", "says both edl and fair: keep one"),
    ],
)
def test_what_makes_no_sense_is_answered_with_the_field(text: str, said: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        autoscaling_in({AUTOSCALE: text})
    assert f"metadata.annotations.{AUTOSCALE}" in str(refusal.value)
    assert said in str(refusal.value)


def test_the_way_of_resizing_may_be_chosen_for_elastic_groups_alone() -> None:
    groups = (make_group(name="ps"), make_group(name="worker", is_elastic=True))
    fixed, elastic = scaled_by(groups, {RESIZE: "Hold"})
    assert (fixed.resize, elastic.resize) == (Resize.JOIN, Resize.HOLD)
    assert elastic.hold == "annotation pliant/resize says so"
    with pytest.raises(InvalidSpec, match="pliant/resize"):
        scaled_by(groups, {RESIZE: "later"})
