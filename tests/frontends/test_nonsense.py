"""Whatever an API server may hold: read, or refused by the name of a field, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.engine.decide import decide
from pliant.errors import InvalidSpec
from pliant.frameworks import framework_for
from pliant.frontends.aitrainingjob import AITrainingJob
from pliant.model.job import Job
from pliant.model.observed import Seen
from tests.builders import NOON
from tests.frontends.raw import raw_group, raw_job

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SPEC_FIELDS = AITrainingJob().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
GROUP_FIELDS = SPEC_FIELDS["properties"]["replicaSpecs"]["additionalProperties"]["properties"]
POD_FIELDS = GROUP_FIELDS["template"]["properties"]["spec"]["properties"]
CONTAINER_FIELDS = POD_FIELDS["containers"]["items"]["properties"]
STATUS_FIELDS = AITrainingJob().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]


def some(fields: Any, *, fixed: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """A few fields that exist, with anything in them, beside those that make sense."""
    wild = st.dictionaries(st.sampled_from(sorted(fields)), ANYTHING, max_size=2)
    return wild.map(lambda chosen: {**(fixed or {}), **chosen})


@st.composite
def nearly_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs in which one level, any of them, holds nonsense."""
    level = draw(st.sampled_from(["spec", "group", "template", "pod", "container"]))
    container = {"name": "main", "image": "x"}
    if level == "container":
        container = draw(some(CONTAINER_FIELDS, fixed=container))
    pod: Any = {"containers": [container]}
    if level == "pod":
        pod = draw(some(POD_FIELDS, fixed=pod))
    template: Any = {"spec": pod}
    if level == "template":
        template = draw(some(["metadata", "spec"], fixed=template))
    group: Any = {"template": template}
    if level == "group":
        group = draw(some(GROUP_FIELDS, fixed=group))
    spec: Any = {"replicaSpecs": {"worker": group}}
    if level == "spec":
        spec = draw(some(SPEC_FIELDS["properties"], fixed=spec))
    return {**raw_job(), "spec": spec}


def judged(raw: dict[str, Any]) -> Job | None:
    """The job, and a first decision about it; None if it was refused by the name of a field."""
    frontend = AITrainingJob()
    try:
        job = frontend.parse(raw)
    except InvalidSpec:
        return None
    decide(job, Seen(), framework_for(job.framework), NOON + timedelta(seconds=5))
    return job


@given(ANYTHING)
@example(5)
@example([])
@example({"replicaSpecs": {"worker": raw_group(replicas=10**12)}})
@example({"replicaSpecs": {"worker": raw_group()}, "timeLimit": 2**63 - 1, "ttlSecondsAfterFinished": 2**63 - 1})
@example({"replicaSpecs": {"worker": raw_group()}, "restartingExitCode": "9" * 5000})
@example({"replicaSpecs": {f"w{n}": raw_group(replicas=10_000) for n in range(2)}})
def test_any_spec_is_read_or_refused(spec: Any) -> None:
    judged({**raw_job(), "spec": spec})


@given(nearly_jobs())
def test_any_field_of_a_spec_is_read_or_refused(raw: dict[str, Any]) -> None:
    judged(raw)


@given(ANYTHING | some(STATUS_FIELDS["properties"], fixed={"phase": "Running"}))
@example("done")
@example(["done"])
@example({"phase": 5, "conditions": 7})
@example({"phase": "Running", "startTime": "2026-01-01T12:00:00"})
@example({"phase": "Failed", "endTime": "2026-01-01T12:00:00"})
@example({"phase": "Running", "RestartCount": {"worker": 2**70}})
@example({"pliant": {"phase": "Running", "startedAt": "2026-01-01T12:00:00"}})
def test_any_status_is_read_or_refused_and_can_be_written_over(status: Any) -> None:
    raw = raw_job(status=status, timeLimit=60, startLimit=60, ttlSecondsAfterFinished=60)
    judged(raw)
    previous = status if isinstance(status, dict) else {}
    frontend = AITrainingJob()
    told = frontend.rejection(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert told["message"] == "spec: is nonsense"
    assert frontend.is_rejected(told)
