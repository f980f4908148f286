"""Writes pictures of simulated runs: SVG always, PNG where a renderer is installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from pliant.errors import NotPossibleHere, UserError
from pliant.simulation.drawing import picture
from pliant.simulation.run import Outcome

_ZOOM = 2.0
_PROBE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="DejaVu Sans,sans-serif">'
    '<text x="2" y="16" font-size="16">{}</text></svg>'
)


def check_plot(path: str) -> None:
    """Refuse what could not be written in the end, before anything is reckoned."""
    target = Path(path)
    if target.suffix.lower() == ".png":
        _renderer()
    elif target.suffix and target.suffix.lower() != ".svg" and not target.is_dir():
        raise UserError(f"--plot: `{path}` is neither FILE.svg nor FILE.png nor a folder")
    if target.suffix and not target.is_dir() and not target.parent.is_dir():
        raise UserError(f"--plot: there is no folder `{target.parent}`; make it first")


def draw(path: str, outcomes: Sequence[Outcome], title: str) -> None:
    """Write one picture, or one for each policy into a folder, and say where."""
    try:
        _draw(Path(path), outcomes, title)
    except OSError as error:
        raise UserError(f"--plot: cannot write {error.filename or path}: {error.strerror}") from None


def _draw(target: Path, outcomes: Sequence[Outcome], title: str) -> None:
    if target.suffix and not target.is_dir():
        _write(target, picture(outcomes, title))
        return
    target.mkdir(parents=True, exist_ok=True)
    for outcome in outcomes:
        policy = outcome.figures.policy
        _write(target / f"{policy}.svg", picture([outcome], f"{title} under {policy}"))


def _write(target: Path, svg: str) -> None:
    if target.suffix.lower() == ".png":
        target.write_bytes(_renderer().svg_to_bytes(svg_string=svg, zoom=_ZOOM))
    else:
        target.write_text(svg, encoding="utf-8")
    sys.stderr.write(f"wrote {target}\n")


def _renderer() -> Any:
    """What makes PNG of SVG, tried out: without a font it would silently leave all words out."""
    try:
        resvg = import_module("resvg_py")
    except ImportError:
        raise NotPossibleHere(
            "--plot: PNG needs a renderer: `pip install 'pliant[plots]'`, or name FILE.svg, which needs nothing"
        ) from None
    if resvg.svg_to_bytes(svg_string=_PROBE.format("W")) == resvg.svg_to_bytes(svg_string=_PROBE.format("")):
        raise NotPossibleHere(
            "--plot: PNG needs a font on this machine (on Debian: fonts-dejavu-core), or name FILE.svg"
        )
    return resvg
