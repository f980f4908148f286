from __future__ import annotations

import re

import pytest

from pliant.master.brain.decide import RULES
from tests.golden.files import ROOT, check_golden
from tests.golden.tables import TABLES, with_tables


@pytest.mark.parametrize("name", ["clients.md", "reasons.md", "suspending.md"])
def test_the_tables_of_a_page_show_what_the_code_defines(name: str) -> None:
    page = ROOT / "docs" / name
    check_golden(page, with_tables(page.read_text()))


def test_every_kind_has_a_table_of_edits() -> None:
    shown = re.findall("<!-- table: (edits_[a-z_]+) -->", (ROOT / "docs" / "suspending.md").read_text())
    assert sorted(shown) == sorted(name for name in TABLES if name.startswith("edits_"))


def test_all_results_of_clients_are_shown() -> None:
    shown = re.findall("<!-- table: (clients_[a-z_]+) -->", (ROOT / "docs" / "clients.md").read_text())
    assert sorted(shown) == sorted(name for name in TABLES if name.startswith("clients_"))


def test_the_page_of_the_master_lists_its_rules_in_order() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs" / "master.md").read_text(), flags=re.MULTILINE)
    names = [rule.name for rule in RULES]
    assert [row for row in rows if row in names] == names
