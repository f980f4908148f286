"""Whatever an API server may hold: read, or refused by the name of a field, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.engine.pods.shared_environment import MAX_INLINE_VARIABLE_BYTES
from pliant.errors import InvalidSpec
from pliant.frameworks import FRAMEWORKS, resolve_framework
from pliant.frameworks.generic import Generic
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.model.job import Job
from pliant.model.observed import Observed
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON, decide_stored, parse_stored
from tests.frontends.raw import raw_group, raw_job

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SCHEMA = AITrainingJobFrontend().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
SPEC_FIELDS = sorted(SCHEMA["spec"]["properties"])
GROUP_FIELDS = sorted(SCHEMA["spec"]["properties"]["replicaSpecs"]["additionalProperties"]["properties"])
STATUS_FIELDS = sorted(SCHEMA["status"]["properties"])
# Of pods and containers only what pods are made from: all else is for the API server to judge.
POD_FIELDS = ["containers", "initContainers", "volumes", "affinity", "hostNetwork", "dnsPolicy", "restartPolicy"]
CONTAINER_FIELDS = ["name", "env", "ports", "volumeMounts"]
AFFINITY = ["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"]


class LongWinded(Generic):
    """Tells so much that it takes a file."""

    def shared_environment(self, job: Job) -> Mapping[str, str]:
        return {"ALL": "x" * (MAX_INLINE_VARIABLE_BYTES + 1)}


def nested(*fields: str) -> st.SearchStrategy[Any]:
    """Anything, at any depth along these fields."""
    if not fields:
        return ANYTHING
    return ANYTHING | nested(*fields[1:]).map(lambda inner: {fields[0]: inner})


def some(fields: list[str], fixed: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    """A few fields that exist, with anything in them, beside those that make sense."""
    listed = st.lists(ANYTHING | st.fixed_dictionaries({"name": ANYTHING}), min_size=1, max_size=2)
    wild = st.dictionaries(st.sampled_from(fields), ANYTHING | listed | nested(*AFFINITY), min_size=1, max_size=2)
    return wild.map(lambda chosen: {**(fixed or {}), **chosen})


@st.composite
def nearly_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Jobs in which one level, any of them, holds nonsense."""
    level = draw(st.sampled_from(["spec", "group", "template", "pod", "container"]))
    here: Any = {"name": "main", "image": "x"}
    if level == "container":
        here = draw(some(CONTAINER_FIELDS, here))
    here = {"containers": [here]}
    if level == "pod":
        here = draw(some(POD_FIELDS, here))
    here = {"spec": here}
    if level == "template":
        here = draw(some(["metadata", "spec"], here) | st.builds(dict, st.just(here), metadata=nested("labels")))
    here = {"template": here}
    if level == "group":
        here = draw(some(GROUP_FIELDS, here))
    here = {"replicaSpecs": {"worker": here}}
    return {**raw_job(), "spec": draw(some(SPEC_FIELDS, here)) if level == "spec" else here}


def judged(raw: dict[str, Any]) -> None:
    """Parse an object, unless it is refused by the name of a field, and decide about it in several moods."""
    try:
        job = parse_stored(AITrainingJobFrontend(), raw)
    except InvalidSpec:
        return
    later = NOON + timedelta(seconds=5)
    decide_stored(job, Observed(), resolve_framework(job), later)
    for name in FRAMEWORKS:
        with suppress(InvalidSpec):  # more members than it can bear
            decide_stored(job, Observed(), FRAMEWORKS[name], later)
    memory = EngineState(phase=JobPhase.PENDING, started_at=NOON, avoided_nodes=("a-bad-node",))
    decide_stored(replace(job, state=memory), Observed(), LongWinded(), later)


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
@example(raw_job({"worker": raw_group({"name": "main", "volumeMounts": 5})}))
@example(raw_job({"worker": raw_group({"name": "main", "volumeMounts": [{"mountPath": None}]})}))
@example(raw_job({"worker": raw_group({"name": "main", "resources": 5})}))
@example(raw_job({"worker": raw_group({"name": "main", "resources": {"limits": [1]}})}))
@example(raw_job({"worker": raw_group({"name": "main", "resources": {"limits": {"nvidia.com/gpu": "²"}}})}))
def test_any_field_of_a_spec_is_read_or_refused(raw: dict[str, Any]) -> None:
    judged(raw)


@given(ANYTHING | some(STATUS_FIELDS, {"phase": "Running"}))
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
    frontend = AITrainingJobFrontend()
    told = frontend.add_validation_error(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert told["message"] == "spec: is nonsense"
    assert frontend.has_validation_error(told)
