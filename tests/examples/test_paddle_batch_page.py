"""What the page about PaddleJobs of batch.paddlepaddle.org says is what there is."""

from __future__ import annotations

import re

import yaml

from pliant.embedded.schema import Schema
from tests.examples.test_pages import ROOT, blocks
from tests.frontends.paddle_batch import PDJ, parsed, role, told

PAGE = ROOT / "docs" / "paddle-batch.md"
SCHEMA = PDJ.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def section(heading: str) -> str:
    return PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_jobs_that_are_shown_and_the_examples_are_jobs() -> None:
    files = sorted((ROOT / "examples" / "paddle-batch").glob("*.yaml"))
    texts = [*blocks(PAGE, "yaml"), *(file.read_text() for file in files)]
    jobs = [each for text in texts for each in yaml.safe_load_all(text) if each["kind"] == PDJ.kind]
    assert len(jobs) == len(files) + 1
    schema = Schema.compile(SCHEMA)
    for job in jobs:
        assert schema.prune(job) == []
        assert schema.validate(job) == []
        PDJ.parse(job)


def test_every_field_of_the_spec_and_every_phase_is_told_of() -> None:
    rows = " ".join(re.findall(r"^\| (.*?) \|", section("Spec"), re.MULTILINE))
    assert [name for name in SCHEMA["properties"]["spec"]["properties"] if f"`{name}" not in rows] == []
    phases = re.findall(r"\b[A-Z]\w+\b", SCHEMA["properties"]["status"]["properties"]["phase"]["description"])
    assert [phase for phase in phases if f"`{phase}`" not in section("Status")] == []


def test_every_variable_that_is_told_of_is_given() -> None:
    job = parsed(withGloo=1, ps=role(), worker=role(2), heter=role())
    given = told(job, "worker", 1)
    rows = re.findall(r"^\| (`.*?) \|", section("Pods"), re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)]
    assert len(named) > 10
    assert [name for name in named if name not in given] == []
