"""Formats the results of simulations as table, JSON, CSV or charts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from pliant.cli.output.charts.picture_files import check_png_renderer, write_picture
from pliant.cli.output.charts.simulation_panels import render_simulation_svg
from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table, terminal_width
from pliant.errors import UserError
from pliant.simulation.metrics import RunSummary
from pliant.simulation.run import SimulationResult

PLOT_OPTION = "--plot"


def format_outcomes(output_format: str, outcomes: Sequence[SimulationResult], stream: TextIO) -> str:
    if output_format == "json":
        return json.dumps([_outcome_to_dict(outcome) for outcome in outcomes], indent=2) + "\n"
    if output_format == "csv":
        return _to_csv([_flatten_for_csv(_outcome_to_dict(outcome)) for outcome in outcomes])
    summaries = [outcome.summary for outcome in outcomes]
    titles = ["", *(summary.policy for summary in summaries)]
    table = Table(titles, TerminalStyle.for_stream(stream), terminal_width(stream))
    return "\n".join(table.render(_comparison_rows(summaries))) + "\n"


def _comparison_rows(summaries: Sequence[RunSummary]) -> list[list[str]]:
    first = summaries[0]
    rows = [
        ["completed jobs", *(f"{summary.completed_jobs:,} of {summary.jobs:,}" for summary in summaries)],
        ["jobs never started", *(f"{summary.never_started_jobs:,}" for summary in summaries)],
        ["pending time, mean", *(_format_seconds(summary.pending_mean) for summary in summaries)],
        ["pending time, max", *(_format_seconds(summary.pending_max) for summary in summaries)],
        ["completion time, mean", *(_format_seconds(summary.completion_mean) for summary in summaries)],
        ["CPU utilization, mean", *(_format_percent(summary.cpu_utilization_mean) for summary in summaries)],
        ["  plateau", *(_format_percent(summary.cpu_utilization_plateau) for summary in summaries)],
    ]
    rows += [
        [f"  {name}", *(_format_percent(summary.cpu_utilization_windows[name]) for summary in summaries)]
        for name in first.cpu_utilization_windows
    ]
    rows += [
        ["fairness, plateau (Jain)", *(f"{summary.jain_plateau:.2f}" for summary in summaries)],
        ["resizes", *(f"{summary.resizes:,}" for summary in summaries)],
    ]
    if any(summary.service_pod_wait_max or summary.service_pods_pending for summary in summaries):
        rows += [
            ["service pod wait, mean", *(_format_seconds(summary.service_pod_wait_mean) for summary in summaries)],
            ["  max", *(_format_seconds(summary.service_pod_wait_max) for summary in summaries)],
            ["  pending at the end", *(f"{summary.service_pods_pending:,}" for summary in summaries)],
        ]
    rows.append(["planning rounds", *(f"{summary.planning_rounds:,}" for summary in summaries)])
    return rows


def _format_seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"


def _format_percent(fraction: float) -> str:
    return f"{fraction * 100:.1f} %"


def _outcome_to_dict(outcome: SimulationResult) -> dict[str, Any]:
    """Return the results as data, without planning times, which differ between runs."""
    return {**_round_floats(asdict(outcome.summary)), "reasons": outcome.resize_counts}


def _round_floats(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 4)
        if isinstance(value, float)
        else _round_floats(value)
        if isinstance(value, dict)
        else value
        for name, value in values.items()
    }


def _flatten_for_csv(values: dict[str, Any]) -> dict[str, Any]:
    parts = {f"cpu_utilization_{name}": part for name, part in values.pop("cpu_utilization_windows").items()}
    values.pop("reasons")
    return {**values, **parts}


def _to_csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def check_plot_path(path: str) -> None:
    """Raise an error before the simulation if the plot could not be written after it."""
    target = Path(path)
    if target.suffix.lower() == ".png":
        check_png_renderer(target, PLOT_OPTION)
    elif target.suffix and target.suffix.lower() != ".svg" and not target.is_dir():
        raise UserError(f"--plot: `{path}` must be FILE.svg, FILE.png or a directory")
    if target.suffix and not target.is_dir() and not target.parent.is_dir():
        raise UserError(f"--plot: directory `{target.parent}` not found; create it first")


def write_plots(path: str, outcomes: Sequence[SimulationResult], title: str) -> None:
    """Write one chart, or one per policy into a directory."""
    try:
        _write_plot_files(Path(path), outcomes, title)
    except OSError as error:
        raise UserError(f"--plot: cannot write {error.filename or path}: {error.strerror}") from None


def _write_plot_files(target: Path, outcomes: Sequence[SimulationResult], title: str) -> None:
    if target.suffix and not target.is_dir():
        write_picture(target, render_simulation_svg(outcomes, title), PLOT_OPTION)
        return
    target.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        policy = outcome.summary.policy
        svg = render_simulation_svg([outcome], f"{title} under {policy}")
        write_picture(target / f"{policy}.svg", svg, PLOT_OPTION)
