"""The page about frameworks names every variable and shows the code there is; the examples are jobs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.embedded.schema import Schema
from pliant.frameworks import FRAMEWORKS
from pliant.frameworks.generic import Generic
from pliant.frontends import FRONTENDS
from pliant.model.framework import Framework, Rank
from pliant.model.job import Job
from tests.builders import make_group
from tests.frameworks.contracts import written_for

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "frameworks.md"
FOLDER = ROOT / "examples" / "frameworks"
EXAMPLES = sorted(FOLDER.glob("*/job.yaml"))
CONTRACTS = {each.name: each for each in FRAMEWORKS.values() if not isinstance(each, Generic)}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "pytorch": [{"rdzv_conf": {"a": "b"}, "max_restarts": 1, "standalone": True}],
    "paddle": [{"with_gloo": 1, "elastic_server": "etcd:2379", "max_restarts": 1}],
    "mpi": [{"mpi_implementation": "Intel"}, {"mpi_implementation": "MPICH"}],
}
"""Settings that bring out variables which others do not have."""


def jobs(framework: Framework) -> list[Job]:
    """Jobs with all roles and with workers alone, of fixed and of changing size."""
    elastic = make_group("worker", 2, min_size=1, max_size=4, is_elastic=True)
    every = [make_group(role.name, 2) for role in framework.roles]
    groups = [every, [make_group("worker", 2)], [elastic], [*every[:-1], elastic]]
    settings = [{}, *OPTIONS.get(framework.name, [])]
    return [written_for(framework.name, *each, options=options) for each in groups for options in settings]


def variables(framework: Framework) -> set[str]:
    found: set[str] = set()
    for job in jobs(framework):
        found |= framework.shared_environment(job).keys()
        for group in job.groups:
            found |= framework.environment(job, Rank(group=group, index=1, attempt=0), "main").keys()
    return found


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_variable_and_file_is_on_the_page(name: str) -> None:
    named = set(re.findall(r"[A-Za-z0-9_.]+", PAGE.read_text()))
    assert variables(CONTRACTS[name]) - named == set()
    assert {file for job in jobs(CONTRACTS[name]) for file in CONTRACTS[name].files(job)} - named == set()


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_framework_is_in_the_table_with_its_roles(name: str) -> None:
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith(f"| [`{name}`]"))
    words = set(re.findall(r"\w+", row))
    port = CONTRACTS[name].port
    assert port is not None
    assert str(port.number) in words
    assert {role.name for role in CONTRACTS[name].roles if not role.name.startswith("tuner")} <= words


def test_the_framework_that_is_shown_is_the_one_there_is() -> None:
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert shown == (ROOT / "pliant" / "frameworks" / "jax.py").read_text()


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.parent.name for path in EXAMPLES])
def test_an_example_is_a_job_that_a_cluster_takes(path: Path) -> None:
    raw = json.loads(json.dumps(next(yaml.safe_load_all(path.read_text()))))
    frontend = FRONTENDS[raw["apiVersion"].partition("/")[0], raw["kind"]]
    schema = Schema.compile(frontend.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    assert schema.prune(raw) == []
    assert schema.validate(raw) == []
    job = frontend.parse(raw)
    assert job.key.name == path.parent.name
    assert job.frameworks[-1] in FRAMEWORKS
    assert f"({path.parent.name}/job.yaml)" in (FOLDER / "README.md").read_text()
