"""Shows what came of simulated runs: policies side by side for people, or as data."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from pliant.cli.style import Style
from pliant.cli.table import Table, width_of
from pliant.simulation.measures import Figures
from pliant.simulation.run import Outcome


def text_of(form: str, outcomes: Sequence[Outcome], stream: TextIO) -> str:
    """The figures in the form asked for: table, json or csv."""
    if form == "json":
        return json.dumps([_data(outcome) for outcome in outcomes], indent=2) + "\n"
    if form == "csv":
        return _csv([_flat(_data(outcome)) for outcome in outcomes])
    shown = [outcome.figures for outcome in outcomes]
    table = Table(["", *(figures.policy for figures in shown)], Style.of(stream), width_of(stream))
    return "\n".join(table.lines(_rows(shown))) + "\n"


def _rows(shown: Sequence[Figures]) -> list[list[str]]:
    first = shown[0]
    rows = [
        ["jobs that ended", *(f"{each.ended:,} of {each.jobs:,}" for each in shown)],
        ["stuck: no member ever ran", *(f"{each.stuck:,}" for each in shown)],
        ["pending, mean", *(_span(each.pending_mean) for each in shown)],
        ["pending, longest", *(_span(each.pending_max) for each in shown)],
        ["completion, mean", *(_span(each.completion_mean) for each in shown)],
        ["CPU used", *(_part(each.used_mean) for each in shown)],
        ["  at the plateau", *(_part(each.used_plateau) for each in shown)],
    ]
    rows += [[f"  {name}", *(_part(each.used_windows[name]) for each in shown)] for name in first.used_windows]
    rows += [
        ["fairness at the plateau (Jain)", *(f"{each.jain_plateau:.2f}" for each in shown)],
        ["resizes", *(f"{each.resizes:,}" for each in shown)],
    ]
    if any(each.services_wait_max or each.services_waiting for each in shown):
        rows += [
            ["pods of services waited, mean", *(_span(each.services_wait_mean) for each in shown)],
            ["  longest", *(_span(each.services_wait_max) for each in shown)],
            ["  still wait at the end", *(f"{each.services_waiting:,}" for each in shown)],
        ]
    rows.append(["rounds of the autoscaler", *(f"{each.rounds:,}" for each in shown)])
    return rows


def _span(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:,.1f} s"


def _part(part: float) -> str:
    return f"{part * 100:.1f} %"


def _data(outcome: Outcome) -> dict[str, Any]:
    """Figures as data; what planning took is left out, as it differs from run to run."""
    return {**_rounded(asdict(outcome.figures)), "reasons": outcome.reasons}


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, 4)
        if isinstance(value, float)
        else _rounded(value)
        if isinstance(value, dict)
        else value
        for name, value in values.items()
    }


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    parts = {f"used_{name}": part for name, part in values.pop("used_windows").items()}
    values.pop("reasons")
    return {**values, **parts}


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
