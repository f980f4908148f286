"""Settings for every test."""

from __future__ import annotations

import os
import signal
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    # Whoever runs the tests in the background may have them ignored, and so would all that they start.
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)

settings.register_profile(
    "fast", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.register_profile("quick", parent=settings.get_profile("fast"), max_examples=10)
settings.register_profile("thorough", parent=settings.get_profile("fast"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what this machine could not try, and why: a silence would read as a success."""
    reports = terminalreporter.getreports("skipped")
    reasons = Counter(each.longrepr[2] for each in reports if isinstance(each.longrepr, tuple))
    if reasons:
        terminalreporter.section("not tried here", yellow=True)
    for reason, count in sorted(reasons.items()):
        terminalreporter.line(f"{count} x {reason.removeprefix('Skipped: ')}", yellow=True)
