from __future__ import annotations

import re

from pliant.master.brain.decide import RULES
from tests.golden.files import ROOT, check_golden
from tests.golden.tables import with_tables

PAGE = ROOT / "docs" / "reasons.md"


def test_the_page_of_rules_and_reasons_shows_what_the_code_defines() -> None:
    check_golden(PAGE, with_tables(PAGE.read_text()))


def test_the_page_of_the_master_lists_its_rules_in_order() -> None:
    rows = re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs" / "master.md").read_text(), flags=re.MULTILINE)
    names = [rule.name for rule in RULES]
    assert [row for row in rows if row in names] == names
