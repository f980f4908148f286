"""A run as lines, and as a picture on a terminal."""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TextIO

import pytest
from rich.console import Console

from pliant.cli.local.run_state import GroupStatusLine
from pliant.cli.output.live_view import MIN_REPAINT_INTERVAL_SECONDS, LiveRunView
from pliant.cli.output.progress import TrainingProgress
from pliant.cli.output.run_view import PlainRunView, RunOutputOptions
from pliant.cli.output.status_area import render_group_line, render_status_area
from pliant.model.messages import MessageReason, message
from tests.builders import saying
from tests.cli.screen import seen


def line(phase: str = "Running", running: int = 2, restarts: int = 0, message: str = "") -> GroupStatusLine:
    return GroupStatusLine(
        job="demo",
        group="worker",
        phase=phase,
        running=running,
        succeeded=0,
        size=2,
        restarts=restarts,
        message=saying(message),
    )


def plain_view(wishes: RunOutputOptions | None = None) -> tuple[PlainRunView, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return PlainRunView(out, err, wishes or RunOutputOptions(), lambda: None), out, err


async def test_log_lines_stand_in_a_column_on_the_standard_output() -> None:
    view, out, err = plain_view()
    view.register_log_prefixes(["worker-0", "ps-0"])
    view.show_log_line("worker-0", "step 1")
    view.show_log_line("ps-0", "ready")
    view.close()
    assert out.getvalue() == "worker-0 │ step 1\nps-0     │ ready\n"
    assert err.getvalue() == ""


async def test_a_phase_is_told_once_on_the_standard_error() -> None:
    view, out, err = plain_view()
    for running in (0, 1, 2):
        view.show_group_status([line("Pending", running=running, message="waiting")])
    view.show_group_status([line("Running")])
    view.close()
    assert out.getvalue() == ""
    assert err.getvalue().splitlines() == [
        "[0.0s] demo: Pending, worker 0/2 (waiting)",
        "[0.0s] demo: Running, worker 2/2",
    ]


async def test_what_cannot_be_created_is_told_although_the_phase_stays() -> None:
    view, _, err = plain_view()
    view.show_group_status([line("Pending", running=0)])
    refused = message(MessageReason.FAILED_CREATE, object="demo-worker-0", error="forbidden")
    for _ in range(2):
        view.show_group_status([replace(line("Pending", running=0), message=refused)])
    view.close()
    assert err.getvalue().splitlines() == [
        "[0.0s] demo: Pending, worker 0/2",
        "[0.0s] demo: Pending, worker 0/2 (cannot create demo-worker-0: forbidden)",
    ]


async def test_wishes_silence_logs_and_notes() -> None:
    view, out, err = plain_view(RunOutputOptions(show_logs=False, show_notes=False))
    view.show_log_line("worker-0", "step 1")
    view.show_note("something")
    view.show_group_status([line()])
    view.close()
    assert out.getvalue() == err.getvalue() == ""


async def test_a_reader_that_goes_away_is_noticed() -> None:
    class Closed(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    hangups: list[bool] = []
    view = PlainRunView(Closed(), io.StringIO(), RunOutputOptions(), lambda: hangups.append(True))
    view.show_log_line("worker-0", "step 1")
    await asyncio.sleep(0)
    assert hangups == [True]


def drawn(width: int, *lines: GroupStatusLine) -> list[str]:
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(render_status_area(lines, timedelta(seconds=75), width))
    return capture.get().splitlines()


def test_the_region_has_one_line_per_job_below_a_rule_with_the_time() -> None:
    rule, group = drawn(70, line(restarts=1, message="all replicas are running"))
    assert rule.startswith("── 1m15s ───")
    assert group == "demo/worker  Running     2/2  1 restart  all replicas are running"


def test_a_narrow_terminal_cuts_lines_instead_of_breaking_them() -> None:
    rule, group = drawn(20, line(message="a long message that does not fit"))
    assert len(rule) <= 20
    assert group == "demo/worker  Runn…"


def test_a_low_terminal_shows_as_many_jobs_as_it_can() -> None:
    console = Console(file=io.StringIO(), width=60, force_terminal=False)
    with console.capture() as capture:
        console.print(render_status_area([line()] * 12, timedelta(seconds=75), 60, 10))
    shown = capture.get().splitlines()
    assert len(shown) == 8
    assert shown[-1] == "… and 6 more"


def group(name: str, running: int, **fields: Any) -> GroupStatusLine:
    return replace(line(running=running, message="busy"), group=name, **fields)


def test_groups_that_run_share_the_line_of_the_one_that_reports() -> None:
    progress = TrainingProgress(step=120, total=240)
    _, shown = drawn(100, group("ps", 2, restarts=1), group("worker", 2, restarts=1, progress=progress))
    assert shown == "demo  Running     worker 2/2, ps 2/2  2 restarts  ██████████░░░░░░░░░░  50%  step 120/240  busy"


def test_groups_that_differ_from_the_others_keep_a_line_of_their_own() -> None:
    progress = TrainingProgress(step=1)
    waiting, failed = group("ps", 1), group("evaluator", 1, failed=1)
    _, *shown = drawn(100, waiting, failed, group("chief", 2), group("worker", 1, progress=progress))
    assert [row.split("busy")[0].split() for row in shown] == [
        ["demo", "Running", "worker", "1/2,", "chief", "2/2", "step", "1"],
        ["demo/ps", "Running", "1/2"],
        ["demo/evaluator", "Running", "1/2"],
    ]


def test_without_a_report_the_line_is_that_of_groups_that_run() -> None:
    _, *shown = drawn(100, group("ps", 0), group("worker", 2))
    assert [row.split()[0] for row in shown] == ["demo/worker", "demo/ps"]


def test_failures_and_restarts_stand_out() -> None:
    text = render_group_line(line("Failed", restarts=2), 11)
    styles = {str(span.style) for span in text.spans}
    assert {"red", "yellow", "bold"} <= styles


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        return seen(self.getvalue().replace("\n", "\r\n"))


async def test_the_live_view_keeps_every_line_and_stands_below_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    view = LiveRunView(out, RunOutputOptions(), lambda: None)
    view.open()
    view.register_log_prefixes(["worker-0"])
    view.show_group_status([line(message="all replicas are running")])
    shown = []
    for round_ in range(3):
        for step in range(4):
            text = f"step {round_}{step} [not markup]"
            shown.append(f"worker-0 │ {text}")
            view.show_log_line("worker-0", text)
        await asyncio.sleep(2 * MIN_REPAINT_INTERVAL_SECONDS)
        *above, rule, group = out.screen()
        assert above == shown
        assert re.match(r"── \d+\.\d", rule)
        assert group == "demo/worker  Running     2/2  all replicas are running"
    view.close()
    assert out.screen() == shown
    assert out.getvalue().endswith("\x1b[2K")


def full_disk() -> TextIO:
    return Path("/dev/full").open("w")


async def test_an_output_that_takes_nothing_more_costs_its_lines_and_not_the_run() -> None:
    err = io.StringIO()
    hangups: list[bool] = []
    with full_disk() as full:
        view = PlainRunView(full, err, RunOutputOptions(), lambda: hangups.append(True))
        for step in range(3):
            view.show_log_line("worker-0", f"step {step}")
            await asyncio.sleep(0)
        view.close()
    assert err.getvalue() == ("! cannot write to standard output: No space left on device; the run continues\n")
    assert hangups == []
