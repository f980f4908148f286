"""What the page about Kubeflow's kinds says is what there is."""

from __future__ import annotations

import pytest
import yaml

from pliant.frontends.kubeflow.job import KubeflowJobFrontend
from tests.examples.test_pages import ROOT, blocks
from tests.frontends.kubeflow import KINDS

PAGE = ROOT / "docs" / "kubeflow.md"


def rows(heading: str) -> dict[str, list[str]]:
    """The rows of the first table below a heading, by their first cell."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return {row[0].strip(): [cell.strip() for cell in row[1:]] for row in cells[1:]}


def test_a_job_that_is_shown_is_a_job() -> None:
    [shown] = [yaml.safe_load(block) for block in blocks(PAGE, "yaml")]
    job = KINDS[shown["kind"]].parse(shown)
    assert (job.restart_limit, job.groups[0].min_size, job.groups[0].max_size) == (3, 1, 4)


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_every_kind_has_a_row_that_is_true(kind: KubeflowJobFrontend) -> None:
    dialect = kind.kubeflow_kind
    groups, container, port, restarts, _ = rows("Kinds")[kind.kind]
    assert all(role in groups for role in dialect.roles)
    assert f"`{dialect.main_container}`" in container
    assert port == f"`{dialect.default_port.name}` {dialect.default_port.number}"
    assert restarts == dialect.default_restart_policy


def test_every_field_of_the_run_policy_has_a_row() -> None:
    told = " ".join(rows("Run policy"))
    schema = KINDS["TFJob"].crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields = schema["properties"]["spec"]["properties"]["runPolicy"]["properties"]
    assert [name for name in fields if f"`{name}" not in told] == []
