"""Whatever may stand in a list of replicas: read, or refused by the name of a field, and nothing else."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.frontends.dl.mpba import MpbaTFJob
from pliant.model.observed import Observed
from pliant.plugins.registry import framework_of
from tests.builders import NOON, decide_stored, parse_stored
from tests.frontends.test_dljob import replica
from tests.frontends.test_nonsense import ANYTHING, CONTAINER_FIELDS, POD_FIELDS, some

ITEMS = sorted(
    MpbaTFJob().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["items"]["properties"]
)


@st.composite
def nearly_specs(draw: st.DrawFn) -> list[Any]:
    """Lists of replicas in one of which one level holds nonsense."""
    level = draw(st.sampled_from(["item", "pod", "container"]))
    container = draw(some(CONTAINER_FIELDS, {"name": "main"})) if level == "container" else {"name": "main"}
    pod = {"containers": [container]}
    pod = draw(some(POD_FIELDS, pod)) if level == "pod" else pod
    item = {"replicaType": "worker", "template": {"spec": pod}}
    return [draw(some(ITEMS, item)) if level == "item" else item, replica("ps")]


def judged(spec: Any) -> None:
    try:
        job = parse_stored(MpbaTFJob(), {"metadata": {"name": "demo", "uid": "u"}, "spec": spec})
    except InvalidSpec:
        return
    decide_stored(job, Observed(), framework_of(job), NOON)


@given(ANYTHING | st.lists(ANYTHING, min_size=1, max_size=2))
@example({"worker": 1})
@example([None])
@example("worker")
def test_any_spec_is_read_or_refused(spec: Any) -> None:
    judged(spec)


@given(nearly_specs())
@example([{"replicaType": "worker", "template": {"spec": None}}])
def test_any_field_of_a_spec_is_read_or_refused(spec: list[Any]) -> None:
    judged(spec)


@given(ANYTHING)
def test_any_status_can_be_written_over(status: Any) -> None:
    previous = status if isinstance(status, dict) else {}
    told = MpbaTFJob().add_validation_error(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert MpbaTFJob().has_validation_error(told)
