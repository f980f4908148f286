"""A kind in one module: what it must define, and what it gets by default."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from pliant.embedded.schema import Schema
from pliant.errors import InvalidSpec
from pliant.frontends.crd import CustomKind
from pliant.frontends.frontend import Frontend
from pliant.frontends.spec.decoding import decode
from pliant.frontends.spec.metadata import job_fields_from_metadata, read_metadata
from pliant.frontends.status.standard import StandardJobStatus
from pliant.model.actions import PersistTransition
from pliant.model.job import Job, ReplicaGroup
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON, PlainFramework, Seen, decide_stored, make_pod, parse_stored, seeing


class SweepSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """A number of trials of one program."""

    trials: int = 1
    command: list[str] = []


class SweepFrontend(Frontend):
    custom_kind = CustomKind(
        group="example.com",
        version="v1",
        kind="Sweep",
        description="Trials of one program.",
        spec_type=SweepSpec,
        status_type=StandardJobStatus,
    )

    def parse(self, raw: Mapping[str, Any], state: EngineState | None = None) -> Job:
        metadata = read_metadata(raw)
        spec = decode(SweepSpec, raw.get("spec"), "spec")
        template = {"spec": {"containers": [{"name": "main", "image": "none", "command": spec.command}]}}
        group = ReplicaGroup(name="worker", path="spec", size=spec.trials, template=template)
        return Job(**job_fields_from_metadata(raw, metadata, self.custom_kind), groups=(group,))


SWEEP = SweepFrontend()


def raw_sweep(**status: Any) -> dict[str, Any]:
    metadata = {"name": "demo", "uid": "1", "generation": 4}
    return {"metadata": metadata, "spec": {"trials": 2, "command": ["true"]}, "status": status}


def play(raw: dict[str, Any], seen: Seen, seconds: int) -> dict[str, Any]:
    """Decide about a sweep, and return it with the status that is written."""
    job = parse_stored(SWEEP, raw)
    decision = decide_stored(job, seen, PlainFramework(), NOON + timedelta(seconds=seconds))
    update = decision.status
    assert update is not None, decision
    assert isinstance(decision, PersistTransition) or decision.actions or seen.pods
    return {**raw, "status": SWEEP.render_status(update, raw["status"], job)}


def test_a_kind_without_a_status_of_its_own_shows_the_standard_one() -> None:
    raw = play(raw_sweep(), seeing(), 0)
    assert (raw["status"]["phase"], raw["status"]["reason"]) == ("Pending", "SweepPending")
    raw = play(raw, seeing(make_pod(0), make_pod(1)), 5)
    assert (raw["status"]["phase"], raw["status"]["ready"]) == ("Running", "2/2")
    assert [each["observedGeneration"] for each in raw["status"]["conditions"]] == [4, 4]
    state = SWEEP.load_state(raw)
    assert state is not None
    assert state.phase is JobPhase.RUNNING


def test_the_definition_accepts_what_the_kind_writes() -> None:
    raw = play(raw_sweep(), seeing(), 0)
    schema = Schema.compile(SWEEP.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert (schema.prune(raw), schema.validate(raw)) == ([], [])


def test_what_is_wrong_with_a_spec_is_told_and_taken_back() -> None:
    raw = play(raw_sweep(), seeing(), 0)
    refused = SWEEP.add_validation_error(InvalidSpec("spec.trials", "must be 0 or more"), raw["status"], NOON, 5)
    assert SWEEP.has_validation_error(refused)
    assert not SWEEP.has_validation_error(play({**raw, "status": refused}, seeing(make_pod(0)), 5)["status"])


def test_a_status_that_nobody_wrote_is_no_state() -> None:
    assert SWEEP.load_state(raw_sweep()) is None
    assert SWEEP.load_state(raw_sweep(phase="Running")) is None
