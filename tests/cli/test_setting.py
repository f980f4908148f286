"""`--set` writes fields of jobs as YAML would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.cli.input.manifests import load_manifests
from pliant.cli.input.problems import InvalidInput
from pliant.cli.input.set_option import with_job_fields_set
from tests.cli.test_mistakes import GOOD

MAP = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: code}\n"


def job_with(tmp_path: Path, *settings: str) -> dict[str, Any]:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD + MAP)
    job, other = with_job_fields_set(load_manifests([str(file)]), settings)
    assert other.raw == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    return job.raw


@pytest.mark.parametrize(
    ("written", "value"),
    [("4", 4), ("'4'", "4"), ("true", True), ("1e-3", 0.001), ("[a, b]", ["a", "b"]), ("{a: 1}", {"a": 1}), ("", "")],
)
def test_a_value_has_the_type_that_yaml_gives_it(tmp_path: Path, written: str, value: Any) -> None:
    raw = job_with(tmp_path, f"spec.replicaSpecs.worker.replicas={written}")
    assert raw["spec"]["replicaSpecs"]["worker"]["replicas"] == value


def test_a_path_leads_through_lists_and_makes_what_is_not_there(tmp_path: Path) -> None:
    container = "spec.replicaSpecs.worker.template.spec.containers[0]"
    raw = job_with(tmp_path, f"{container}.image=b:2", 'metadata.labels."a.b/c"=d', "spec.elastic.replicas=3")
    assert raw["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]["image"] == "b:2"
    assert raw["metadata"]["labels"] == {"a.b/c": "d"}
    assert raw["spec"]["elastic"] == {"replicas": 3}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("spec.replicas", "not PATH=VALUE"),
        ("=3", "not PATH=VALUE"),
        ("replicas=3", "must start with spec or metadata"),
        ("spec.cleanPodPolicy.x.y=3", "is not a mapping"),
        ("spec.replicaSpecs.worker.template.spec.containers[7].image=x", "is out of range"),
        ("spec.replicaSpecs.worker.template.spec.containers.image=x", "is not an index of a list"),
        ("spec.x={", "--set spec.x={: "),
    ],
)
def test_a_setting_that_leads_nowhere_is_refused(tmp_path: Path, setting: str, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        job_with(tmp_path, setting)
    assert words in refused.value.problems[0].message
