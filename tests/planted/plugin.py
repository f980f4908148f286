"""A pytest plugin for runs against planted bugs: writes down which tests failed, one id a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

VARIABLE = "PLIANT_FAILED_TESTS"
"""Names the file."""


def pytest_configure() -> None:
    """Take the first counterexample of a property as it is: to find a smaller one takes minutes."""
    settings.register_profile("planted", settings(), phases=(Phase.explicit, Phase.generate))
    settings.load_profile("planted")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that failed."""
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note a file that could not be imported."""
    _note(report)


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    # Workers of pytest-xdist send their reports to the process that started them, which notes them.
    if report.failed and VARIABLE in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(os.environ[VARIABLE]).open("a") as file:
            file.write(f"{report.nodeid}\n")
