"""The table of intended differences in the docs is the one that the comparison uses."""

from __future__ import annotations

from pathlib import Path

from tests.differential.explanations import EXPLANATIONS, render_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "embedded.md"
MOST_ROWS = 30


def test_the_docs_show_the_explanations() -> None:
    assert render_table() in PAGE.read_text(), f"put this into {PAGE.name}:\n{render_table()}"


def test_there_are_few_explanations() -> None:
    assert len(EXPLANATIONS) <= MOST_ROWS
    assert len({each.request for each in EXPLANATIONS}) == len(EXPLANATIONS)
