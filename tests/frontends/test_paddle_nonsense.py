"""Whatever an API server may hold of paddlepaddle.org: read, or refused by the name of a field, nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.frameworks import resolve_framework
from pliant.frontends.paddle.job import PaddleJobFrontend
from pliant.model.observed import Observed
from tests.builders import NOON, decide_stored, parse_stored
from tests.frontends.paddle import raw_job
from tests.frontends.test_nonsense import ANYTHING

SCHEMA = PaddleJobFrontend().crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
SPEC = sorted(SCHEMA["spec"]["properties"])
ROLE = sorted(SCHEMA["spec"]["properties"]["trainer"]["properties"])
STATUS = [*sorted(SCHEMA["status"]["properties"]), "state", "message"]


def judged(raw: dict[str, Any]) -> None:
    """Parse an object, unless it is refused by the name of a field; decide about it, and tell how it is."""
    try:
        job = parse_stored(PaddleJobFrontend(), raw)
    except InvalidSpec:
        return
    decision = decide_stored(job, Observed(), resolve_framework(job), NOON + timedelta(seconds=5))
    if decision.status is not None:
        assert PaddleJobFrontend().render_status(decision.status, {}, job)["phase"]


@given(ANYTHING)
@example(5)
@example({"trainer": {"entrypoint": "x", "min-instance": 10**12}})
@example({"trainer": {"entrypoint": "x"}, "annotations": {"walltime": 2**63 - 1}})
@example({"trainer": {"entrypoint": "x", "restart_limit": "999999%"}})
@example({"trainer": {"entrypoint": "x", "restart_limit": {}}})
def test_any_spec_is_read_or_refused(spec: Any) -> None:
    judged({**raw_job(), "spec": spec})


@given(st.dictionaries(st.sampled_from(SPEC), ANYTHING | st.lists(ANYTHING, max_size=2), max_size=2))
@example({"volumes": [{"name": {}}]})
@example({"imagePullSecrets": [5]})
@example({"frame_work": {"type": {}}})
@example({"NodeSelector": {"a": {}}})
def test_any_field_of_a_spec_is_read_or_refused(fields: dict[str, Any]) -> None:
    judged(raw_job(fields))


@given(st.sampled_from(["trainer", "pserver", "master"]), st.dictionaries(st.sampled_from(ROLE), ANYTHING, max_size=2))
@example("trainer", {"resources": {"limits": {"nvidia.com/gpu": "²"}, "requests": {"cpu": "1e9999"}}})
@example("trainer", {"envs": [{"name": "A", "value": {}}, {"name": "B", "valueFrom": 5}]})
@example("pserver", {"min-instance": 10_000})
def test_any_field_of_a_role_is_read_or_refused(role: str, fields: dict[str, Any]) -> None:
    base = {"entrypoint": "x", "min-instance": 1}
    judged(raw_job({"fault_tolerant": role == "master", role: {**base, **fields}}))


@given(ANYTHING | st.dictionaries(st.sampled_from(STATUS), ANYTHING, max_size=3))
@example({"phase": "succeeded", "startTime": "2026-01-01T12:00:00", "completionTime": 7})
@example({"state": "Succeed", "message": {}})
def test_any_status_is_read_or_refused_and_can_be_written_over(status: Any) -> None:
    judged(raw_job(status=status))
    previous = status if isinstance(status, dict) else {}
    told = PaddleJobFrontend().add_validation_error(InvalidSpec("spec", "is nonsense"), previous, NOON)
    assert told["reason"] == "spec: is nonsense"
    assert PaddleJobFrontend().has_validation_error(told)
