from __future__ import annotations

from pathlib import Path

import pytest

from pliant.cli.input.manifests import load_manifests
from pliant.cli.input.problems import InvalidInput

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: {}}}\n"


def written(folder: Path, *namespaces: str) -> list[str]:
    path = folder / "objects.yaml"
    path.write_text("---\n".join(CONFIG.format(namespace) for namespace in namespaces))
    return [str(path)]


def test_objects_of_the_same_name_in_two_namespaces_are_different(tmp_path: Path) -> None:
    assert [each.namespace for each in load_manifests(written(tmp_path, "a", "b"))] == ["a", "b"]


def test_an_object_that_is_written_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="ConfigMap settings is defined twice"):
        load_manifests(written(tmp_path, "a", "a"))
