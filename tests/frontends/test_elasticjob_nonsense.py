"""Whatever an API server may hold of ElasticJobs: read, or refused by the name of a field, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from pliant.errors import InvalidSpec
from pliant.frameworks import resolve_framework
from pliant.model.observed import Observed
from pliant.model.scale_plans import PlanGroupRequest, PlanPhase, ScalePlan
from tests.builders import KEY, NOON, decide_stored, parse_stored
from tests.frontends.elasticjob import EJ, raw_ej, role
from tests.frontends.test_nonsense import ANYTHING, CONTAINER_FIELDS, POD_FIELDS, some

SCHEMA = EJ.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
SPEC = sorted(SCHEMA["spec"]["properties"])
TYPE = sorted(SCHEMA["spec"]["properties"]["replicaSpecs"]["additionalProperties"]["properties"])
STATUS = sorted(SCHEMA["status"]["properties"])
TYPES = st.sampled_from(["worker", "ps", "dlrover-master"])
PLAN = ScalePlan(
    key=KEY,
    uid="plan",
    created_at=NOON,
    group_requests={"worker": PlanGroupRequest(size=2, resources={"cpu": "1"})},
    phase=PlanPhase.PENDING,
)


def judged(raw: dict[str, Any]) -> None:
    """Parse an object, unless it is refused by the name of a field; carry out a plan for it, and tell of it."""
    for _ in range(3):
        try:
            job = parse_stored(EJ, raw)
        except InvalidSpec:
            return
        decision = decide_stored(job, Observed(plans=(PLAN,)), resolve_framework(job), NOON + timedelta(seconds=15))
        if decision.status is not None:
            words = EJ.render_status(decision.status, {}, job)
            assert words == EJ.render_status(decision.status, {}, job)
            raw = {**raw, "status": words}


@given(ANYTHING)
@example(5)
@example({"replicaSpecs": {"worker": None}})
@example({"replicaSpecs": {"": role(1)}})
@example({"replicaSpecs": {"worker": role(1), "a/b": role(1), "a-b": role(1)}})
def test_any_spec_is_read_or_refused(spec: Any) -> None:
    judged({**raw_ej(), "spec": spec})


@given(st.dictionaries(st.sampled_from(SPEC), ANYTHING | st.dictionaries(TYPES, ANYTHING, max_size=2), max_size=2))
@example({"distributionStrategy": {}})
@example({"resourceLimits": {"cpu": {}}})
def test_any_field_of_a_spec_is_read_or_refused(fields: dict[str, Any]) -> None:
    judged(raw_ej(**fields))


@given(TYPES, st.dictionaries(st.sampled_from(TYPE), ANYTHING, max_size=2))
@example("worker", {"priority": "nan"})
@example("worker", {"replicas": 10**12})
@example("dlrover-master", {"template": {}})
@example("dlrover-master", {"template": {"spec": None}})
def test_any_field_of_a_type_is_read_or_refused(name: str, fields: dict[str, Any]) -> None:
    judged(raw_ej(replicaSpecs={"worker": role(1), name: {**role(1), **fields}}))


@given(TYPES, some(POD_FIELDS, {"containers": [{"name": "main"}]}))
@example("worker", {"containers": [{"name": "main", "resources": 5}]})
@example("worker", {"containers": [{"name": "main", "resources": {"requests": 5, "limits": [5]}}]})
@example("dlrover-master", {"containers": [{"name": "main", "command": 5, "args": {"a": 1}}]})
@example("dlrover-master", {"containers": [{"name": "main", "image": [], "command": "x"}]})
@example("dlrover-master", {"containers": [{"name": "main"}], "serviceAccountName": 5})
def test_any_pod_is_read_or_refused(name: str, pod: dict[str, Any]) -> None:
    judged(raw_ej(replicaSpecs={"worker": role(1), name: role(1, pod=pod)}))


@given(TYPES, some([*CONTAINER_FIELDS, "resources", "command", "args", "image"], {"name": "main"}))
def test_any_container_is_read_or_refused(name: str, container: dict[str, Any]) -> None:
    judged(raw_ej(replicaSpecs={"worker": role(1), name: role(1, pod={"containers": [container]})}))


@given(ANYTHING | st.dictionaries(st.sampled_from(STATUS), ANYTHING, max_size=3))
@example({"phase": "Succeeded", "status": {"startTime": "2026-01-01T12:00:00"}})
@example({"phase": {}, "status": [], "scalePlan": {}})
def test_any_status_is_read_or_refused(status: Any) -> None:
    judged({**raw_ej(), "status": status})
