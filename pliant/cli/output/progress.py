"""Parses the progress that a program prints: `pliant: step=120 loss=0.31`, JSON lines, or tqdm bars."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import islice

PROGRESS_PREFIX = "pliant: "
MAX_PROGRESS_FIELDS = 8
MAX_UNPREFIXED_LINE_LENGTH = 4096  # longer lines without the prefix are ignored
MAX_FIELD_NAME_LENGTH = 32
_FIELD_PATTERN = re.compile(
    r"(?<![^\s,;(\[])([A-Za-z_][\w.]{0,31})=([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf|-inf)(?=[\s,;)\]]|$)"
)

_PERCENT_PATTERN = re.compile(r"\s*(?P<percent>\d{1,3}(?:\.\d+)?)\s?%")
# ` 45%|████▌     | 45/100 [00:01<00:01, 40.0it/s]`
_TQDM_PATTERN = re.compile(
    r"(?<![\d.])(?P<percent>\d{1,3})%\|[^|]*\|\s*(?:(?P<step>\d{1,15})/(?P<total>\d{1,15})(?=\s))?"
)
_FIELD_ALIASES = {"global_step": "step", "iteration": "step", "total_steps": "total", "max_steps": "total"}
_STEP_FIELDS = ("step", "total", "percent")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingProgress:
    """The progress of a group."""

    step: int | None = None
    total: int | None = None
    metrics: tuple[tuple[str, float], ...] = ()  # other reported values in their order, such as `loss`
    percent: float | None = None  # as reported by the program

    @property
    def fraction_done(self) -> float | None:
        """The fraction from 0 to 1; None if the total is unknown."""
        if self.step is not None and self.total and self.total > 0:
            return min(max(self.step / self.total, 0.0), 1.0)
        return None if self.percent is None else min(max(self.percent / 100, 0.0), 1.0)

    @property
    def main_metric(self) -> tuple[str, float] | None:
        """The first metric that is a loss; without one, the first metric."""
        losses = (metric for metric in self.metrics if "loss" in metric[0].lower())
        return next(losses, self.metrics[0] if self.metrics else None)

    def __str__(self) -> str:
        parts = []
        if self.step is not None:
            parts.append(f"step {self.step}" + (f"/{self.total}" if self.total else ""))
        elif self.percent is not None:
            parts.append(f"{self.percent:g} %")
        parts += [format_metric(metric) for metric in self.metrics]
        return "  ".join(parts)


def format_metric(metric: tuple[str, float]) -> str:
    name, value = metric
    return f"{name} {value:.4g}"


def parse_progress_line(line: str, previous: TrainingProgress | None = None) -> TrainingProgress | None:
    """Return the previous progress updated with what a line reports; None if it reports nothing."""
    fields = _parse_fields(line)
    if not fields:
        return None
    known = previous or TrainingProgress()
    named = {_FIELD_ALIASES.get(name, name): value for name, value in fields.items()}
    metrics = {**dict(known.metrics), **{n: v for n, v in named.items() if n not in _STEP_FIELDS}}
    return TrainingProgress(
        step=_to_int(named.get("step"), known.step),
        total=_to_int(named.get("total"), known.total),
        percent=named.get("percent", known.percent),
        metrics=tuple(metrics.items())[:MAX_PROGRESS_FIELDS],
    )


def _parse_fields(line: str) -> dict[str, float]:
    """Return the numbers in a line by name: after the prefix, or in a line with an unambiguous format."""
    start = line.find(PROGRESS_PREFIX)
    if start >= 0:
        report = line[start + len(PROGRESS_PREFIX) :]
        return _parse_pairs(report) or _parse_percent(_PERCENT_PATTERN.match(report))
    if len(line) > MAX_UNPREFIXED_LINE_LENGTH:
        return {}
    if line.startswith("{") and line.rstrip().endswith("}"):
        return _require_step_field(_parse_json_fields(line))
    if "step=" in line:
        return _require_step_field(_parse_pairs(line))
    return _parse_percent(_TQDM_PATTERN.search(line)) if "%|" in line else {}


def _require_step_field(fields: dict[str, float]) -> dict[str, float]:
    """Return the fields if one is a step; lines without the prefix and a step are not progress reports."""
    return fields if any(_FIELD_ALIASES.get(name, name) == "step" for name in fields) else {}


def _parse_pairs(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in _FIELD_PATTERN.findall(text)[:MAX_PROGRESS_FIELDS]}


def _parse_json_fields(line: str) -> dict[str, float]:
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    numbers = (
        (name, float(value))
        for name, value in (document.items() if isinstance(document, dict) else ())
        if isinstance(value, int | float) and not isinstance(value, bool) and len(name) <= MAX_FIELD_NAME_LENGTH
    )
    return dict(islice(numbers, MAX_PROGRESS_FIELDS))


def _parse_percent(match: re.Match[str] | None) -> dict[str, float]:
    if match is None:
        return {}
    steps = {"step": match["step"], "total": match["total"]} if match.re is _TQDM_PATTERN and match["total"] else {}
    return {"percent": float(match["percent"]), **{name: float(text) for name, text in steps.items()}}


def parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _to_int(number: float | None, fallback: int | None) -> int | None:
    return int(number) if number is not None and math.isfinite(number) else fallback
