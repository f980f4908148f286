"""What `import pliant` imports, and what the package exports."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import pliant
from pliant import aio

LARGE_LIBRARIES = ("aiohttp", "asyncio", "cryptography", "msgspec", "rich", "yaml")


def modules_after(code: str) -> list[str]:
    """Return the modules that a new Python has imported after some code."""
    printing = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", printing], check=True, capture_output=True, text=True)
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_importing_the_package_imports_nothing_else_of_pliant_and_no_library() -> None:
    modules = modules_after("import pliant; dir(pliant)")
    assert [name for name in modules if name.startswith("pliant.")] == []
    assert [name for name in LARGE_LIBRARIES if name in modules] == []


def test_modules_for_training_programs_do_not_import_the_api() -> None:
    modules = modules_after("from pliant.elastic import report")
    assert [name for name in modules if name.startswith(("pliant.api", "pliant.cli"))] == []


def test_every_exported_name_exists_and_is_listed() -> None:
    assert all(getattr(pliant, name) is not None for name in pliant.__all__)
    assert set(pliant.__all__) <= set(dir(pliant))
    assert all(hasattr(aio, name) for name in aio.__all__)


def test_type_checkers_see_the_names_that_programs_get() -> None:
    tree = ast.parse(Path(pliant.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: (node.module, alias.name) for node in imports for alias in node.names}
    assert seen == vars(pliant)["_EXPORTS"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'pliant' has no attribute 'runn'"):
        vars(pliant)["__getattr__"]("runn")
