"""A program's own reports of its progress."""

from __future__ import annotations

import pytest

from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.glyphs import render_bar
from pliant.cli.output.progress import TrainingProgress, parse_progress_line
from pliant.cli.output.status_area import render_group_line
from tests.builders import saying


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("pliant: step=120 loss=0.31 total=1000", "step 120/1000  loss 0.31"),
        ("12:00 INFO pliant: step=7", "step 7"),
        ("pliant: loss=1.5e-3 accuracy=.9", "loss 0.0015  accuracy 0.9"),
        ("pliant: loss=nan", "loss nan"),
        ("pliant: step=3 phase=warmup", "step 3"),
    ],
)
def test_a_line_reports_steps_and_figures(line: str, text: str) -> None:
    assert str(parse_progress_line(line)) == text


@pytest.mark.parametrize("line", ["pliant: ", "pliant: hello", "pliant: step=x", "appliant:step=1", ""])
def test_other_lines_report_nothing(line: str) -> None:
    assert parse_progress_line(line) is None


def test_what_a_report_leaves_out_stays_known() -> None:
    first = parse_progress_line("pliant: step=1 total=10 loss=3")
    later = parse_progress_line("pliant: step=2", first)
    assert later == TrainingProgress(step=2, total=10, metrics=(("loss", 3.0),))
    assert later.fraction_done == 0.2


@pytest.mark.parametrize(("step", "total", "share"), [(5, 10, 0.5), (20, 10, 1.0), (5, 0, None), (None, 9, None)])
def test_a_share_is_told_only_of_a_known_whole(step: int | None, total: int | None, share: float | None) -> None:
    assert TrainingProgress(step=step, total=total).fraction_done == share


def test_the_live_view_paints_a_bar() -> None:
    assert render_bar(0.5, 4) == "██░░"
    line = GroupStatusLine(
        job="demo", group="worker", phase="Running", running=2, succeeded=0, size=2, restarts=0, message=saying(""),
        progress=TrainingProgress(step=120, total=240, metrics=(("loss", 0.31),)),
    )  # fmt: skip
    assert "██████████░░░░░░░░░░  50%  step 120/240  loss 0.31" in render_group_line(line, 11).plain


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, "demo/worker  Running     2/2  ██████████░░░░░░░░░░  50%  step 120/240  loss 0.31"),
        (70, "demo/worker  Running     2/2  █████░░░░░  50%  step 120/240  loss 0.31"),
        (60, "demo/worker  Running     2/2  50%  step 120/240  loss 0.31"),
    ],
)
def test_a_narrow_terminal_shortens_the_bar_before_the_numbers(width: int, shown: str) -> None:
    line = GroupStatusLine(
        job="demo", group="worker", phase="Running", running=2, succeeded=0, size=2, restarts=0, message=saying(""),
        progress=TrainingProgress(step=120, total=240, metrics=(("loss", 0.31),)),
    )  # fmt: skip
    assert render_group_line(line, 11, width).plain == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("step=10 loss=0.5", "step 10  loss 0.5"),
        ("INFO [rank0] epoch=2 step=10 total_steps=40 loss=5e-1,", "step 10/40  epoch 2  loss 0.5"),
        ('{"step": 10, "total": 40, "loss": 0.5, "note": "fine", "done": false}', "step 10/40  loss 0.5"),
        ('{"global_step": 10, "loss": NaN}', "step 10  loss nan"),
        (" 45%|████▌     | 45/100 [00:01<00:01, 40.0it/s]", "step 45/100"),
        ("Epoch 1:  45%|████▌     |", "45 %"),
        ("pliant: 45 %", "45 %"),
        ("pliant: percent=12.5 loss=1", "12.5 %  loss 1"),
    ],
)
def test_lines_in_other_words_are_understood_too(line: str, shown: str) -> None:
    assert str(parse_progress_line(line)) == shown


@pytest.mark.parametrize(
    "line",
    [
        "loss=0.5",
        "timestep=10",
        "the next step = 10",
        '{"loss": 0.5}',
        '{"step": "ten"}',
        '{"step": 10',
        "[1, 2]",
        "100% sure",
        "GET /?step=10&x=1",
        "step=10 " + "x" * 5000,
    ],
)
def test_lines_that_only_look_alike_report_nothing(line: str) -> None:
    assert parse_progress_line(line) is None


def test_a_share_is_known_from_steps_or_from_a_percentage() -> None:
    assert [
        each and each.fraction_done
        for each in map(parse_progress_line, ("pliant: 45%", "pliant: step=1 total=4 percent=90"))
    ] == [0.45, 0.25]
