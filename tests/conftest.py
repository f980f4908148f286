"""Settings for every test."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from tests import kubectl
from tests.depth import IS_DEEP, SEED

for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever runs the tests in the background may have them ignored, and so would all that they start.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

settings.register_profile(
    "deep", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.register_profile("chosen", parent=settings.get_profile("deep"), max_examples=30)
settings.register_profile("thorough", parent=settings.get_profile("deep"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("deep" if IS_DEEP else "chosen"))


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let properties try the examples of the day, so that a failure can be repeated."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(SEED)


def pytest_report_header() -> str:
    """Print what repeats this run."""
    return f"depth: {'deep' if IS_DEEP else 'chosen'}, PLIANT_TEST_SEED={SEED}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what uses kubectl, and leave out what only deep runs try."""
    for item in items:
        if "kubectl" in getattr(item, "fixturenames", ()):
            item.add_marker("kubectl")
    left_out = [] if IS_DEEP else [item for item in items if item.get_closest_marker("deep")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tell what finds kubectl which test asks."""
    kubectl.note_test(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this machine could not try, and why: a silence would read as a success."""
    reports = terminalreporter.getreports("skipped")
    reasons = Counter(each.longrepr[2] for each in reports if isinstance(each.longrepr, tuple))
    if reasons:
        terminalreporter.section("not tried here", yellow=True)
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} x {reason.removeprefix('Skipped: ')}", yellow=True)
