"""What the live view shows of recent progress: losses, the step rate and the remaining time."""

from __future__ import annotations

import io
import math

import pytest

from pliant.cli.local.progress_trend import ProgressTrend, RunProgress
from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.glyphs import ASCII_GLYPHS, UNICODE_GLYPHS, Glyphs, render_sparkline
from pliant.cli.output.progress import TrainingProgress
from pliant.cli.output.status_area import render_group_line
from pliant.model.job import JobKey
from tests.builders import saying

JOB = JobKey("default", "demo")


class Reporting:
    """Replicas of one group that print their steps at chosen times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.progress = RunProgress(lambda: self.now)

    def at(self, now: float, line: str, rank: int = 0) -> ProgressTrend:
        self.now = now
        assert self.progress.record_line(JOB, "worker", rank, f"pliant: {line}")
        return self.progress.trend(JOB, "worker")


def test_rate_and_remaining_time_are_shown_once_they_mean_something() -> None:
    here = Reporting()
    assert here.at(0.1, "step=10 total=100").steps_per_second is None
    assert here.at(0.8, "step=17").steps_per_second is None
    trend = here.at(2.1, "step=30")
    assert trend.steps_per_second == pytest.approx(10)
    assert trend.seconds_left == pytest.approx(7)
    assert Reporting().at(0, "step=1").seconds_left is None


def test_steps_that_arrive_at_once_are_no_rate() -> None:
    here = Reporting()
    for step in range(1000):
        here.at(10.001 + step / 10_000, f"step={step}")
    here.at(12.0, "step=1002")
    assert here.at(14.0, "step=1004").steps_per_second == pytest.approx(5 / 3.9, rel=0.01)


def test_the_rate_is_that_of_the_recent_past() -> None:
    here = Reporting()
    for second in range(100):
        here.at(second, f"step={second}")
    for second in range(100, 140):
        trend = here.at(second, f"step={100 + 10 * (second - 100)}")
    assert trend.steps_per_second == pytest.approx(10)


def test_a_program_with_long_steps_has_a_rate_too() -> None:
    here = Reporting()
    trends = [here.at(600.0 * step, f"step={step} total=10") for step in range(5)]
    assert trends[-1].steps_per_second == pytest.approx(1 / 600)
    assert trends[-1].seconds_left == pytest.approx(3600)


def test_a_restart_that_falls_back_begins_a_new_rate() -> None:
    here = Reporting()
    for second in range(10):
        here.at(second, f"step={10 * second}")
    assert here.at(20, "step=50").steps_per_second is None
    here.at(21, "step=51")
    assert here.at(22, "step=52").steps_per_second == pytest.approx(1)


def test_replicas_at_different_steps_do_not_confuse_the_rate() -> None:
    here = Reporting()
    for second in range(10):
        here.at(second, f"step={10 * second}", rank=0)
        trend = here.at(second + 0.2, f"step={10 * second - 7 if second else 0}", rank=1)
    assert trend.steps_per_second == pytest.approx(10)
    for second in range(10, 45):  # worker-0 has ended
        trend = here.at(second, f"step={100 + second}", rank=1)
    assert trend.steps_per_second == pytest.approx(1)


def test_the_latest_losses_make_a_sparkline() -> None:
    here = Reporting()
    for step in range(40):
        trend = here.at(step, f"accuracy=1 step={step} loss={40 - step}")
    assert trend.values == tuple(range(16, 0, -1))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([], ""),
        ([8, 7, 6, 5, 4, 3, 2, 1], "█▇▆▅▄▃▂▁"),
        ([1, 1, 1], "▄▄▄"),
        ([3, math.nan, 2, math.inf, 1], "█×▅×▁"),
        ([math.nan], "×"),
        ([1e308, -1e308, 0.0], "××▄"),
    ],
)
def test_a_sparkline_shows_any_number(values: list[float], shown: str) -> None:
    assert render_sparkline(values) == shown


def test_terminals_without_unicode_get_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    latin, utf8 = (io.TextIOWrapper(io.BytesIO(), encoding) for encoding in ("latin-1", "utf-8"))
    assert (Glyphs.for_stream(latin), Glyphs.for_stream(utf8)) == (ASCII_GLYPHS, UNICODE_GLYPHS)
    assert render_sparkline([3, 2, math.nan, 1], ASCII_GLYPHS).isascii()
    monkeypatch.setenv("TERM", "linux")
    utf8.isatty = lambda: True  # type: ignore[method-assign]
    assert Glyphs.for_stream(utf8) is ASCII_GLYPHS


TREND = ProgressTrend(tuple(range(16, 0, -1)), 12.34, 75.0)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (140, "██████████░░░░░░░░░░  50%  step 120/240  loss 0.31 ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  12.3 steps/s  ETA 1m15s"),
        (110, "████░░░░  50%  step 120/240  loss 0.31 ██▇▇▆▆▅▅▄▄▃▃▂▂▁▁  12.3 steps/s  ETA 1m15s"),
        (100, "██░░░  50%  step 120/240  loss 0.31 ██▇▆▅▄▃▂▁  12.3 steps/s  ETA 1m15s"),
        (90, "██░░░  50%  step 120/240  loss 0.31 ██▇▇▆▅▅▄▃▃▂▁▁  ETA 1m15s"),
        (80, "████░░░░░  50%  step 120/240  loss 0.31  ETA 1m15s"),
        (75, "50%  step 120/240  loss 0.31  ETA 1m15s"),
        (60, "50%  step 120/240  loss 0.31"),
    ],
)
def test_a_narrow_terminal_keeps_numbers_longest(width: int, shown: str) -> None:
    line = GroupStatusLine(
        job="demo", group="worker", phase="Running", running=2, succeeded=0, size=2, restarts=0, message=saying(""),
        progress=TrainingProgress(step=120, total=240, metrics=(("loss", 0.31),)), trend=TREND,
    )  # fmt: skip
    text = render_group_line(line, 11, width)
    assert text.cell_len <= width
    assert text.plain.split("2/2", 1)[1].strip() == shown


def test_a_job_that_restarts_has_no_rate() -> None:
    line = GroupStatusLine(
        job="demo", group="worker", phase="Restarting", running=1, succeeded=0, size=2, restarts=1,
        message=saying(""), progress=TrainingProgress(step=1), trend=ProgressTrend((), 0.5, 9.0),
    )  # fmt: skip
    assert "step/s" not in render_group_line(line, 11).plain


def test_the_sparkline_stands_beside_the_loss() -> None:
    line = GroupStatusLine(
        job="demo", group="worker", phase="Running", running=2, succeeded=0, size=2, restarts=0, message=saying(""),
        progress=TrainingProgress(metrics=(("epoch", 1), ("loss", 0.5), ("rate", 3))), trend=ProgressTrend((2, 1)),
    )  # fmt: skip
    assert render_group_line(line, 11).plain.endswith("epoch 1  loss 0.5 █▁  rate 3")
