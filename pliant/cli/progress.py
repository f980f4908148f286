"""Reads what a program reports about its progress: `pliant: step=120 loss=0.31`, JSON, or a bar's `45%|`."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from itertools import islice

MARK = "pliant: "
MOST_FIELDS = 8
FULL, EMPTY = "█", "░"
LONGEST_LINE = 4096
"""Characters of a line without the mark that is looked at."""
LONGEST_NAME = 32
_FIELD = re.compile(
    r"(?<![^\s,;(\[])([A-Za-z_][\w.]{0,31})=([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf|-inf)(?=[\s,;)\]]|$)"
)

_MARKED_PERCENT = re.compile(r"\s*(?P<percent>\d{1,3}(?:\.\d+)?)\s?%")
_BAR = re.compile(r"(?<![\d.])(?P<percent>\d{1,3})%\|[^|]*\|\s*(?:(?P<step>\d{1,15})/(?P<total>\d{1,15})(?=\s))?")
"""How tqdm draws one: ` 45%|████▌     | 45/100 [00:01<00:01, 40.0it/s]`."""
_ALIASES = {
    "global_step": "step",
    "iteration": "step",
    "total_steps": "total",
    "max_steps": "total",
}
_OWN = ("step", "total", "percent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a group has come."""

    step: int | None = None
    total: int | None = None
    figures: tuple[tuple[str, float], ...] = ()
    """Everything else that was reported, in the order written: `loss`, `accuracy`, …"""
    percent: float | None = None
    """The part that is done, as far as a program says so itself."""

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None if nobody said what is the whole."""
        if self.step is not None and self.total and self.total > 0:
            return min(max(self.step / self.total, 0.0), 1.0)
        return None if self.percent is None else min(max(self.percent / 100, 0.0), 1.0)

    def __str__(self) -> str:
        parts = []
        if self.step is not None:
            parts.append(f"step {self.step}" + (f"/{self.total}" if self.total else ""))
        elif self.percent is not None:
            parts.append(f"{self.percent:g} %")
        parts += [f"{name} {value:.4g}" for name, value in self.figures]
        return "  ".join(parts)


def reported(line: str, before: Progress | None = None) -> Progress | None:
    """What a line reports, added to what was known; None if it reports nothing."""
    fields = _fields(line)
    if not fields:
        return None
    known = before or Progress()
    named = {_ALIASES.get(name, name): value for name, value in fields.items()}
    figures = {**dict(known.figures), **{n: v for n, v in named.items() if n not in _OWN}}
    return Progress(
        step=_whole(named.get("step"), known.step),
        total=_whole(named.get("total"), known.total),
        percent=named.get("percent", known.percent),
        figures=tuple(figures.items())[:MOST_FIELDS],
    )


def _fields(line: str) -> dict[str, float]:
    """The numbers in a line by name: those after the mark, or those of a line that nobody would mistake."""
    start = line.find(MARK)
    if start >= 0:
        said = line[start + len(MARK) :]
        return _pairs(said) or _percent(_MARKED_PERCENT.match(said))
    if len(line) > LONGEST_LINE:
        return {}
    if line.startswith("{") and line.rstrip().endswith("}"):
        return _telling(_json_fields(line))
    if "step=" in line:
        return _telling(_pairs(line))
    return _percent(_BAR.search(line)) if "%|" in line else {}


def _telling(fields: dict[str, float]) -> dict[str, float]:
    """The fields of a line without a mark, if there is a step among them: others are not meant for us."""
    return fields if any(_ALIASES.get(name, name) == "step" for name in fields) else {}


def _pairs(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in _FIELD.findall(text)[:MOST_FIELDS]}


def _json_fields(line: str) -> dict[str, float]:
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    numbers = (
        (name, float(value))
        for name, value in (told.items() if isinstance(told, dict) else ())
        if isinstance(value, int | float) and not isinstance(value, bool) and len(name) <= LONGEST_NAME
    )
    return dict(islice(numbers, MOST_FIELDS))


def _percent(found: re.Match[str] | None) -> dict[str, float]:
    """What a bar says: the part that is done and, if it counts them, the steps."""
    if found is None:
        return {}
    counted = {"step": found["step"], "total": found["total"]} if found.re is _BAR and found["total"] else {}
    return {"percent": float(found["percent"]), **{name: float(text) for name, text in counted.items()}}


def figure(text: str) -> float | None:
    """The number that a text is; None if it is none."""
    try:
        return float(text)
    except ValueError:
        return None


def bar(share: float, width: int = 20) -> str:
    """A bar of so many characters: `███████░░░`."""
    full = round(share * width)
    return FULL * full + EMPTY * (width - full)


def _whole(number: float | None, known: int | None) -> int | None:
    return int(number) if number is not None and math.isfinite(number) else known
