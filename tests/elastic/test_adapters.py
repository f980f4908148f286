"""What all adapters promise; tests/real_frameworks/test_adapters.py runs them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import pliant.adapters

ADAPTERS = sorted(Path(pliant.adapters.__path__[0]).glob("elastic_*.py"))
LIBRARIES = {
    "elastic_huggingface": {"transformers", "torch"},
    "elastic_jax": {"jax", "numpy"},
    "elastic_keras": {"keras"},
    "elastic_lightning": {"lightning"},
    "elastic_pytorch": {"torch"},
}


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_an_adapter_is_short_and_imports_only_the_client_library_and_its_framework(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    nodes = list(ast.walk(tree))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    others = {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)
    assert others == {"pliant", "elastic", *LIBRARIES[path.stem]}
    assert len(path.read_text().splitlines()) <= 65
