from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.planted.bug import Bug
from tests.planted.bugs import BUGS
from tests.planted.report import BEGIN, END, PAGE, render_table, with_table
from tests.planted.results import Result, append_result, read_results, write_results
from tests.planted.tree import ROOT

BUG = Bug(name="a", area="engine", what="wrong", file="f.py", before="<", after="<=", likely=("tests/a.py",))


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_bug_can_be_planted(bug: Bug) -> None:
    original = (ROOT / bug.file).read_text()
    planted = bug.plant(original)
    assert planted != original
    compile(planted, bug.file, "exec")
    assert [path for path in bug.likely if not (ROOT / path).exists()] == []


def test_names_of_bugs_are_unique() -> None:
    assert [name for name, times in Counter(bug.name for bug in BUGS).items() if times > 1] == []


def test_a_bug_is_planted_in_one_place_only() -> None:
    assert BUG.plant("a < b") == "a <= b"
    with pytest.raises(ValueError, match="occurs 2 times"):
        BUG.plant("a < b < c")


def test_the_latest_result_counts(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    missed = Result(bug="a", digest=BUG.digest, group="", is_found=False, is_whole=True)
    found = Result(bug="a", digest=BUG.digest, group="", is_found=True, test="tests/a.py::test_b")
    append_result(missed, file)
    append_result(found, file)
    assert read_results([BUG], file) == {("a", ""): found}
    assert write_results([BUG], file) == {("a", ""): found}
    assert len(file.read_text().splitlines()) == 1


def test_a_result_for_another_version_of_a_bug_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    append_result(Result(bug="a", digest="other", group="", is_found=True), file)
    assert read_results([BUG], file) == {}


def test_the_table_tells_what_is_found_what_is_not_and_what_was_not_tried() -> None:
    found = Result(bug="a", digest=BUG.digest, group="", is_found=True, test="tests/a.py::test_b")
    missed = Result(bug="a", digest=BUG.digest, group="", is_found=False, is_whole=True)
    assert "| wrong | yes, by `tests/a.py` | yes |" in render_table([BUG], {("a", ""): found})
    assert "| wrong | **no** | not tried |" in render_table([BUG], {("a", ""): missed})
    assert "| wrong | not tried | not tried |" in render_table([BUG], {})


def test_only_the_text_between_the_markers_is_replaced() -> None:
    assert with_table(f"a\n{BEGIN}\nold\n{END}\nb\n", "new\n") == f"a\n{BEGIN}\nnew\n{END}\nb\n"


def test_the_documentation_shows_the_results() -> None:
    text = PAGE.read_text()
    assert with_table(text, render_table(BUGS, read_results(BUGS))) == text, "run scripts/planted-bugs --table"
