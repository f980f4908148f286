"""The Python code of the documentation runs as it is shown."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.test_pages import ROOT, blocks

PAGE = ROOT / "docs" / "python.md"
PROGRAMS = [block for block in blocks(PAGE, "python") if not block.startswith("# ")]


def run_python(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_path_of_a_notebook_user_runs_as_the_readme_shows_it() -> None:
    [program] = blocks(ROOT / "README.md", "python")
    assert len(program.splitlines()) <= 20
    out = run_python("-c", program)
    assert "Succeed trained" in out
    causes = "worker-1 was killed by SIGKILL (exit code 137): step 60: kill -9 myself"
    assert f"restart: {causes}\nphase: Running\nphase: Succeed\n" in out
    assert "restart succeeded" in out


@pytest.mark.deep
def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    for block in blocks(PAGE, "python"):
        title = block.partition("\n")[0].removeprefix("# ")
        if title.endswith(".py"):
            (tmp_path / title).write_text(block)
    shutil.copy(ROOT / "examples" / "quickstart" / "restart.yaml", tmp_path)
    assert "1 passed" in run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)


@pytest.mark.deep
@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_every_program_of_the_page_runs(program: str) -> None:
    run_python("-c", program)
