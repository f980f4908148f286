from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.planted import runner
from tests.planted.bug import Bug
from tests.planted.runner import Options, Run, examine, run_tests
from tests.planted.tree import Tree

BUG = Bug(name="a", area="engine", what="wrong", file="f.py", before="<", after="<=", likely=("tests/likely.py",))
LIKELY, OTHER = "tests/likely.py::test_a", "tests/other.py::test_b"

Failing = Callable[[bool], list[str]]
"""The tests that fail, given whether the bug is planted."""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    (tmp_path / "f.py").write_text("a < b")
    return Tree(tmp_path)


def run_as(monkeypatch: pytest.MonkeyPatch, failing: Failing) -> None:
    """Let tests fail as said instead of running them."""

    def fake(tree: Tree, group: str, targets: Sequence[str], seconds: float, *, deselected: Sequence[str] = ()) -> Run:
        is_planted = "<=" in (tree.root / "f.py").read_text()
        failed = [
            each
            for each in failing(is_planted)
            if each not in deselected and (not targets or any(each.startswith(target) for target in targets))
        ]
        return Run(passed=not failed, failed=tuple(failed))

    monkeypatch.setattr(runner, "run_tests", fake)


def test_a_bug_is_found_by_a_likely_test(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, lambda is_planted: [LIKELY, OTHER] if is_planted else [])
    result = examine(tree, BUG, Options())
    assert (result.is_found, result.test) == (True, LIKELY)


def test_the_other_tests_run_when_no_likely_test_fails(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, lambda is_planted: [OTHER] if is_planted else [])
    assert examine(tree, BUG, Options()).test == OTHER
    assert not examine(tree, BUG, Options(likely_only=True)).is_found


def test_a_test_that_fails_without_the_bug_does_not_count(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, lambda is_planted: [LIKELY])
    result = examine(tree, BUG, Options())
    assert (result.is_found, result.is_whole, result.unreliable) == (False, True, (LIKELY,))


def test_such_a_test_does_not_hide_others(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, lambda is_planted: [LIKELY, OTHER] if is_planted else [LIKELY])
    result = examine(tree, BUG, Options())
    assert (result.is_found, result.test, result.unreliable) == (True, OTHER, (LIKELY,))


def test_the_file_is_restored(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, lambda is_planted: [])
    examine(tree, BUG, Options())
    assert (tree.root / "f.py").read_text() == "a < b"


def test_a_run_that_hangs_is_ended_and_fails(tree: Tree) -> None:
    script = tree.root / "scripts" / "test"
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    script.chmod(0o755)
    run = run_tests(tree, "", ["tests/likely.py"], 0.5)
    assert (run.passed, run.timed_out, run.failed) == (False, True, ())
