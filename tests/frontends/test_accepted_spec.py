"""The last accepted spec of a job in its stored form."""

from __future__ import annotations

import base64
import zlib

import pytest
from msgspec.structs import replace

from pliant.errors import InvalidSpec
from pliant.frontends.accepted_spec import accept_spec, parse_stored_job
from pliant.frontends.aitrainingjob.job import AITrainingJobFrontend
from pliant.frontends.status.engine_state import dump_state
from pliant.model.state import EngineState, JobPhase
from tests.builders import NOON
from tests.frontends.raw import raw_group, raw_job

AITJ = AITrainingJobFrontend()
GOOD = raw_job({"worker": raw_group(replicas=2)})
BAD = {"worker": raw_group(replicas=2, minReplicas=5, maxReplicas=1)}


def edited(data: str | None = None) -> dict[str, object]:
    """The job after a bad edit, with the spec that was accepted before, or with something in its place."""
    accepted = accept_spec(GOOD, None)
    if data is not None:
        accepted = replace(accepted, data=data)
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, accepted_spec=accepted)
    return raw_job(BAD, status={"pliant": dump_state(state)})


def test_the_accepted_spec_comes_back() -> None:
    parsed = parse_stored_job(AITJ, edited())
    assert [group.size for group in parsed.job.groups] == [2]
    assert parsed.rejection is not None
    assert parsed.rejection.field == "spec.replicaSpecs.worker.minReplicas"


@pytest.mark.parametrize(
    "data",
    [
        "x",
        "not \x00 text",
        base64.b85encode(b"no zlib").decode(),
        base64.b85encode(zlib.compress(b"no json")).decode(),
        base64.b85encode(zlib.compress(b"[1]")).decode(),
        base64.b85encode(zlib.compress(b"0" * 200_000_000, 9)).decode(),
    ],
    ids=["short", "no text", "no zlib", "no json", "a list", "a bomb"],
)
def test_data_that_others_wrote_harms_nobody(data: str) -> None:
    with pytest.raises(InvalidSpec, match="minReplicas"):
        parse_stored_job(AITJ, edited(data))


def test_groups_keep_their_order() -> None:
    groups = {name: raw_group() for name in ("worker", "ps", "chief")}
    good = raw_job(groups)
    state = EngineState(phase=JobPhase.RUNNING, started_at=NOON, accepted_spec=accept_spec(good, None))
    bad = raw_job({**groups, "ps": raw_group(minReplicas=5, maxReplicas=1)}, status={"pliant": dump_state(state)})
    assert [group.name for group in parse_stored_job(AITJ, bad).job.groups] == ["worker", "ps", "chief"]
