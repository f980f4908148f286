"""What docs/paddle.md shows is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pliant.engine.pods.manifests import pod_manifest
from pliant.engine.pods.shared_environment import build_shared_environment
from pliant.frameworks import resolve_framework
from pliant.frontends import FRONTENDS
from pliant.frontends.paddle.job import PaddleJobFrontend
from pliant.frontends.paddle.lenient_decoding import SILENTLY_IGNORED_FIELDS, normalize_field_name
from pliant.model.framework import Rank
from tests.examples.test_pages import ROOT, blocks

PAGE = ROOT / "docs" / "paddle.md"
SAMPLE = ROOT / "tests" / "golden" / "paddle" / "seed.in.yaml"
EXAMPLE = ROOT / "examples" / "paddle" / "job.yaml"


def test_the_page_shows_the_sample_as_it_stands() -> None:
    [shown] = [block for block in blocks(PAGE, "yaml") if "kind: PaddleJob" in block]
    assert yaml.safe_load(shown) == yaml.safe_load(SAMPLE.read_text())


@pytest.mark.parametrize("path", [SAMPLE, EXAMPLE], ids=["sample", "example"])
def test_what_is_shown_is_understood_without_a_warning(path: Path) -> None:
    assert PaddleJobFrontend().parse(yaml.safe_load(path.read_text())).warnings == ()


def test_every_field_is_in_the_table() -> None:
    schema = FRONTENDS["paddlepaddle.org", "PaddleJob"].crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]
    fields = {*spec, *spec["trainer"]["properties"]} - {"pserver", "trainer", "master"}
    told = {normalize_field_name(word.rpartition(".")[2]) for word in re.findall(r"`([\w.-]+)`", PAGE.read_text())}
    told |= {normalize_field_name(word.split(".")[0]) for word in re.findall(r"`([\w.-]+)[:`]", PAGE.read_text())}
    assert {field for field in fields if normalize_field_name(field) not in told} == set()
    assert told >= SILENTLY_IGNORED_FIELDS - {"paddlereplicaspecs"}


def test_every_variable_of_this_kind_is_in_the_table() -> None:
    job = PaddleJobFrontend().parse(yaml.safe_load(SAMPLE.read_text()))
    pod = pod_manifest(
        build_shared_environment(job, resolve_framework(job)), Rank(group=job.groups[1], index=0, attempt=0)
    )
    names = {each["name"] for each in pod["spec"]["containers"][0]["env"]}
    told = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE.read_text()))
    frameworks = set(re.findall(r"`([A-Z][A-Z_]+)`", (ROOT / "docs" / "frameworks.md").read_text()))
    assert names - told - frameworks == set()
