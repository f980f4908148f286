"""What the documentation shows is what there is: jobs, moves between phases, variables, and links that lead on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pliant.embedded.schema import Schema
from pliant.engine.decide import decide
from pliant.frameworks import resolve_framework
from pliant.frameworks.generic import variable_prefix
from pliant.frontends import FRONTENDS
from pliant.model.actions import Act, CreatePod
from pliant.model.observed import Observed
from pliant.model.state import PHASE_TRANSITIONS
from tests.examples.drawing import drawing
from tests.scenarios.jobs import API_VERSION, KIND, Manifest

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "docs" / "aitrainingjob.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*/*.md"))]
FRONTEND = FRONTENDS[API_VERSION.partition("/")[0], KIND]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in _FENCED.findall(page.read_text()) if kind == language]


def shown_jobs() -> Iterator[tuple[str, Manifest]]:
    for page in PAGES:
        for block in blocks(page, "yaml"):
            for shown in yaml.safe_load_all(block):
                if isinstance(shown, dict) and shown.get("kind") == KIND:
                    yield f"{page.stem}-{shown['metadata']['name']}", json.loads(json.dumps(shown))


JOBS = dict(shown_jobs())


@pytest.mark.parametrize("name", JOBS)
def test_a_job_shown_in_the_documentation_is_a_job(name: str) -> None:
    schema = Schema.compile(FRONTEND.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert schema.prune(JOBS[name]) == []
    assert schema.validate(JOBS[name]) == []
    FRONTEND.parse(JOBS[name])


def test_every_page_of_a_feature_shows_a_job() -> None:
    pages = ("aitrainingjob", "restarts", "ending", "nodes", "resizing", "suspending")
    assert {page for page in pages if any(name.startswith(f"{page}-") for name in JOBS)} == set(pages)


def test_phases_move_as_drawn() -> None:
    (text,) = blocks(ENTRY, "mermaid")
    legal = {(str(before), str(after)) for before, afters in PHASE_TRANSITIONS.items() for after in afters}
    assert drawing(text).moves() == legal


def test_a_drawing_without_an_arrow_draws_other_moves() -> None:
    (text,) = blocks(ENTRY, "mermaid")
    arrows = [line for line in text.splitlines() if "-->" in line and "[*]" not in line]
    whole = drawing(text).moves()
    assert all(drawing(text.replace(f"{arrow}\n", "")).moves() != whole for arrow in arrows)


def test_every_variable_is_in_the_table() -> None:
    job = FRONTEND.parse(JOBS["aitrainingjob-smallest"])
    decision = decide(job, None, Observed(), resolve_framework(job), job.created_at)
    assert isinstance(decision, Act)
    (pod,) = (action.manifest for action in decision.actions if isinstance(action, CreatePod))
    names = [variable["name"] for variable in pod["spec"]["containers"][0]["env"]]
    prefix = f"{variable_prefix('worker')}_"
    told = [f"<GROUP>_{name.removeprefix(prefix)}" if name.startswith(prefix) else name for name in names]
    table = re.findall(r"^\| `((?:TRAININGJOB|<GROUP>)_\w+)` \|", ENTRY.read_text(), re.MULTILINE)
    assert sorted(table) == sorted(told)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    prose = _FENCED.sub("", page.read_text())
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", prose) if "://" not in link]
    assert [link for link in links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in anchors(target))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
