"""The trainings with real Paddle are jobs, and say how their trainers learn of another size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.embedded.schema import Schema
from pliant.frontends import FRONTENDS
from pliant.model.job import ResizeMode

FOLDER = Path(__file__).parents[2] / "examples" / "paddle-training"
WAYS = {"servers": ResizeMode.JOIN, "servers-batch": ResizeMode.JOIN, "collective": ResizeMode.RESTART}


@pytest.mark.parametrize("name", WAYS)
def test_a_training_is_a_job_of_two_to_four_trainers(name: str) -> None:
    raw, claim = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    frontend = FRONTENDS[raw["apiVersion"].partition("/")[0], raw["kind"]]
    schema = Schema.compile(frontend.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert schema.prune(raw) == []
    assert schema.validate(raw) == []
    assert claim["metadata"]["name"] == raw["metadata"]["name"] == name
    job = frontend.parse({**raw, "metadata": {**raw["metadata"], **_born()}})
    (trainers,) = [group for group in job.groups if group.is_elastic]
    assert (trainers.size, trainers.min_size, trainers.max_size) == (2, 2, 4)
    assert (trainers.resize_mode, trainers.is_autoscaled) == (WAYS[name], True)
    assert job.warnings == ()


def test_every_training_is_looked_at() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(WAYS)


def _born() -> dict[str, Any]:
    return {"namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
