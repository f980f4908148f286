"""Whatever an API server may hold of kubeflow.org: read, or refused by the name of a field, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.frameworks import resolve_framework
from pliant.model.observed import Observed
from tests.builders import NOON, decide_stored, parse_stored
from tests.frontends.kubeflow import KINDS, TEMPLATE, raw_of
from tests.frontends.test_nonsense import ANYTHING

LEADERS = {kind: end.kubeflow_kind.required_role or end.kubeflow_kind.roles[0] for kind, end in KINDS.items()}


def fields_of(kind: str, *path: str) -> list[str]:
    schema = KINDS[kind].crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in path:
        schema = schema["properties"][name]
    return sorted(schema["properties"])


FIELDS = {kind: fields_of(kind, "spec") for kind in KINDS}
POLICY = fields_of("TFJob", "spec", "runPolicy")
STATUS = fields_of("TFJob", "status")


def judged(kind: str, raw: dict[str, Any]) -> None:
    """Parse an object, unless it is refused by the name of a field, and decide about it."""
    try:
        job = parse_stored(KINDS[kind], raw)
    except InvalidSpec:
        return
    decide_stored(job, Observed(), resolve_framework(job), NOON + timedelta(seconds=5))


@st.composite
def nearly_jobs(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Jobs in which a field of the spec, of the run policy or of a container holds nonsense."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    nonsense = draw(ANYTHING)
    match draw(st.sampled_from(["spec", "policy", "group", "container"])):
        case "spec":
            raw = raw_of(kind, {LEADERS[kind]: 1})
            raw["spec"][draw(st.sampled_from(FIELDS[kind]))] = nonsense
        case "policy":
            raw = raw_of(kind, {LEADERS[kind]: 1}, runPolicy={draw(st.sampled_from(POLICY)): nonsense})
        case "group":
            raw = raw_of(kind, {"Worker": {draw(st.sampled_from(["replicas", "template"])): nonsense}})
        case _:
            container = {"name": "main", draw(st.sampled_from(["command", "env", "ports"])): nonsense}
            spec = {"spec": {"containers": [container, nonsense]}}
            raw = raw_of(kind, {LEADERS[kind]: {"template": TEMPLATE}, "Worker": {"template": spec}})
    return kind, raw


@given(nearly_jobs())
def test_any_field_of_a_spec_is_read_or_refused(drawn: tuple[str, dict[str, Any]]) -> None:
    judged(*drawn)


@given(st.sampled_from(sorted(KINDS)), ANYTHING)
def test_any_spec_is_read_or_refused(kind: str, spec: Any) -> None:
    judged(kind, {**raw_of(kind, {}), "spec": spec})


@given(ANYTHING | st.dictionaries(st.sampled_from(STATUS), ANYTHING, max_size=3))
@example({"conditions": [{"type": "Succeeded", "status": "True"}], "startTime": "2026-01-01T12:00:00"})
@example({"startTime": "2026-01-01T12:00:00"})
def test_any_status_is_read_or_refused_and_can_be_written_over(status: Any) -> None:
    judged("TFJob", {**raw_of("TFJob", {"Worker": 1}), "status": status})
    previous = status if isinstance(status, dict) else {}
    told = KINDS["TFJob"].add_validation_error(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert told["conditions"][-1]["message"] == "spec: is nonsense"
    assert KINDS["TFJob"].has_validation_error(told)
