"""Shows what came of simulated runs: policies side by side for people, or as data."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from pliant.cli.output.style import TerminalStyle
from pliant.cli.output.table import Table, terminal_width
from pliant.errors import UnsupportedEnvironment, UserError
from pliant.simulation.metrics import RunSummary
from pliant.simulation.run import SimulationResult
from pliant.simulation.svg_charts import render_svg


def format_outcomes(output_format: str, outcomes: Sequence[SimulationResult], stream: TextIO) -> str:
    """The figures in the form asked for: table, json or csv."""
    if output_format == "json":
        return json.dumps([_outcome_to_dict(outcome) for outcome in outcomes], indent=2) + "\n"
    if output_format == "csv":
        return _to_csv([_flatten_for_csv(_outcome_to_dict(outcome)) for outcome in outcomes])
    shown = [outcome.summary for outcome in outcomes]
    table = Table(
        ["", *(figures.policy for figures in shown)], TerminalStyle.for_stream(stream), terminal_width(stream)
    )
    return "\n".join(table.render(_comparison_rows(shown))) + "\n"


def _comparison_rows(figures: Sequence[RunSummary]) -> list[list[str]]:
    first = figures[0]
    rows = [
        ["completed jobs", *(f"{each.completed_jobs:,} of {each.jobs:,}" for each in figures)],
        ["jobs never started", *(f"{each.never_started_jobs:,}" for each in figures)],
        ["pending time, mean", *(_format_seconds(each.pending_mean) for each in figures)],
        ["pending time, max", *(_format_seconds(each.pending_max) for each in figures)],
        ["completion time, mean", *(_format_seconds(each.completion_mean) for each in figures)],
        ["CPU utilization, mean", *(_format_percent(each.cpu_utilization_mean) for each in figures)],
        ["  plateau", *(_format_percent(each.cpu_utilization_plateau) for each in figures)],
    ]
    rows += [
        [f"  {name}", *(_format_percent(each.cpu_utilization_windows[name]) for each in figures)]
        for name in first.cpu_utilization_windows
    ]
    rows += [
        ["fairness, plateau (Jain)", *(f"{each.jain_plateau:.2f}" for each in figures)],
        ["resizes", *(f"{each.resizes:,}" for each in figures)],
    ]
    if any(each.service_pod_wait_max or each.service_pods_pending for each in figures):
        rows += [
            ["service pod wait, mean", *(_format_seconds(each.service_pod_wait_mean) for each in figures)],
            ["  max", *(_format_seconds(each.service_pod_wait_max) for each in figures)],
            ["  pending at the end", *(f"{each.service_pods_pending:,}" for each in figures)],
        ]
    rows.append(["planning rounds", *(f"{each.planning_rounds:,}" for each in figures)])
    return rows


def _format_seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"


def _format_percent(fraction: float) -> str:
    return f"{fraction * 100:.1f} %"


def _outcome_to_dict(outcome: SimulationResult) -> dict[str, Any]:
    """Figures as data; what planning took is left out, as it differs from run to run."""
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


_PNG_SCALE = 2.0
_FONT_TEST_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="DejaVu Sans,sans-serif">'
    '<text x="2" y="16" font-size="16">{}</text></svg>'
)


def check_plot_path(path: str) -> None:
    """Refuse what could not be written in the end, before anything is reckoned."""
    target = Path(path)
    if target.suffix.lower() == ".png":
        _load_png_renderer()
    elif target.suffix and target.suffix.lower() != ".svg" and not target.is_dir():
        raise UserError(f"--plot: `{path}` is neither FILE.svg nor FILE.png nor a folder")
    if target.suffix and not target.is_dir() and not target.parent.is_dir():
        raise UserError(f"--plot: there is no folder `{target.parent}`; make it first")


def write_plots(path: str, outcomes: Sequence[SimulationResult], title: str) -> None:
    """Write one picture, or one for each policy into a folder, and say where."""
    try:
        _write_plot_files(Path(path), outcomes, title)
    except OSError as error:
        raise UserError(f"--plot: cannot write {error.filename or path}: {error.strerror}") from None


def _write_plot_files(target: Path, outcomes: Sequence[SimulationResult], title: str) -> None:
    if target.suffix and not target.is_dir():
        _write_picture(target, render_svg(outcomes, title))
        return
    target.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        policy = outcome.summary.policy
        _write_picture(target / f"{policy}.svg", render_svg([outcome], f"{title} under {policy}"))


def _write_picture(target: Path, svg: str) -> None:
    if target.suffix.lower() == ".png":
        target.write_bytes(_load_png_renderer().svg_to_bytes(svg_string=svg, zoom=_PNG_SCALE))
    else:
        target.write_text(svg, encoding="utf-8")
    sys.stderr.write(f"wrote {target}\n")


def _load_png_renderer() -> Any:
    """What makes PNG of SVG, tried out: without a font it would silently leave all words out."""
    try:
        resvg = import_module("resvg_py")
    except ImportError:
        raise UnsupportedEnvironment(
            "--plot: PNG needs a renderer: `pip install 'pliant[plots]'`, or name FILE.svg, which needs nothing"
        ) from None
    if resvg.svg_to_bytes(svg_string=_FONT_TEST_SVG.format("W")) == resvg.svg_to_bytes(
        svg_string=_FONT_TEST_SVG.format("")
    ):
        raise UnsupportedEnvironment(
            "--plot: PNG needs a font on this machine (on Debian: fonts-dejavu-core), or name FILE.svg"
        )
    return resvg
