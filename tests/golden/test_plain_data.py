from __future__ import annotations

import dataclasses
from typing import Any

from pliant.model.job import ReplicaGroup, RestartPolicy, RestartRule
from tests.golden.plain_data import plain_data, set_fields

REQUIRED: dict[str, Any] = {"name": "worker", "size": 2, "template": {}}


def with_one_more_field(kind: type[Any]) -> type[Any]:
    """Return the dataclass as it would be with one more optional field."""
    extra = ("queue_name", str, dataclasses.field(default="", kw_only=True))
    return dataclasses.make_dataclass(kind.__name__, [extra], bases=(kind,), frozen=True)


def test_a_new_optional_field_changes_no_golden_file() -> None:
    assert plain_data(with_one_more_field(ReplicaGroup)(**REQUIRED)) == plain_data(ReplicaGroup(**REQUIRED))


def test_a_new_optional_field_of_a_nested_dataclass_changes_no_golden_file() -> None:
    rule = with_one_more_field(RestartRule)(limit=3)
    assert plain_data(ReplicaGroup(**REQUIRED, restart_rule=rule)) == plain_data(
        ReplicaGroup(**REQUIRED, restart_rule=RestartRule(limit=3))
    )


def test_a_field_that_is_set_shows() -> None:
    assert plain_data(with_one_more_field(ReplicaGroup)(**REQUIRED, queue_name="batch"))["queue_name"] == "batch"


def test_a_field_without_a_default_always_shows() -> None:
    assert plain_data(ReplicaGroup(**REQUIRED)) == REQUIRED


def test_a_nested_dataclass_shows_only_what_differs() -> None:
    group = ReplicaGroup(**REQUIRED, restart_rule=RestartRule(policy=RestartPolicy.ALWAYS, limit=3))
    assert plain_data(group) == {**REQUIRED, "restart_rule": {"policy": "Always", "limit": 3}}


def test_zero_does_not_pass_for_false() -> None:
    assert plain_data(RestartRule(counts_disruptions=0)) == {"counts_disruptions": 0}  # type: ignore[arg-type]


def test_fields_can_be_left_out_by_name() -> None:
    assert set_fields(ReplicaGroup(**REQUIRED), without=("template",)) == {"name": "worker", "size": 2}
