"""docs/security.md names a test for each claim, and these tests exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
_NAMED_TEST = re.compile(r"`(\w[\w/]*\.py)::(test_\w+)`")
_ROW = re.compile(r"^\| (?P<claim>[^|]+) \| (?P<test>[^|]+) \|$", re.MULTILINE)
CLAIMS_OF_KUBERNETES = ("a property of Kubernetes", "not a security boundary")
"""What an attacker can do, which no test of Pliant shows."""


@cache
def named_tests_of(file: str) -> frozenset[str]:
    path = ROOT / "tests" / file
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE) if path.exists() else ())


@pytest.mark.parametrize(("file", "test"), sorted(set(_NAMED_TEST.findall(PAGE.read_text()))))
def test_a_named_test_exists(file: str, test: str) -> None:
    assert test in named_tests_of(file)


@pytest.mark.parametrize("section", ["A pod", "A tenant", "The operator", "The network", "On a laptop"])
def test_each_claim_names_a_test(section: str) -> None:
    text = PAGE.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [row for row in _ROW.finditer(text) if row["test"] != "test" and "--" not in row["test"]]
    assert rows
    unproven = [row["claim"] for row in rows if not _NAMED_TEST.search(row["test"])]
    allowed = [row["claim"] for row in rows if row["test"].strip() in CLAIMS_OF_KUBERNETES]
    assert unproven == allowed
