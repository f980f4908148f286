from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.planted.bug import Bug
from tests.planted.tree import ROOT, copied_tree

BUG = Bug(
    name="exits-at-once",
    area="commands",
    what="every program exits at once",
    file="pliant/__init__.py",
    before='__version__ = "',
    after='raise SystemExit(42)\n__version__ = "',
    likely=(),
)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a copy of the repository is made from a git checkout")
def test_programs_that_tests_start_have_the_bug(tmp_path: Path) -> None:
    with copied_tree() as tree:

        def exit_codes() -> list[int]:
            inside = tree.root / ".venv" / "bin"
            commands = [[str(inside / "pliant"), "version"], [str(inside / "python"), "-c", "import pliant"]]
            return [subprocess.run(each, cwd=tmp_path, capture_output=True).returncode for each in commands]

        assert exit_codes() == [0, 0]
        with tree.planted(BUG):
            assert exit_codes() == [42, 42]
        assert exit_codes() == [0, 0]
