"""Writes charts to SVG and PNG files."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pliant.errors import UnsupportedEnvironment

PICTURE_SUFFIXES = (".svg", ".png")
_PNG_SCALE = 2.0
_FONT_TEST_SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" font-family="DejaVu Sans,sans-serif">'
    '<text x="2" y="16" font-size="16">{}</text></svg>'
)


def check_png_renderer(target: Path, option: str) -> None:
    """Raise UnsupportedEnvironment if the file is a PNG that cannot be drawn here."""
    if target.suffix.lower() == ".png":
        _load_png_renderer(option)


def write_picture(target: Path, svg: str, option: str) -> None:
    """Write an SVG in the format of the suffix of the file; an error names the option that chose the file."""
    if target.suffix.lower() == ".png":
        target.write_bytes(_load_png_renderer(option).svg_to_bytes(svg_string=svg, zoom=_PNG_SCALE))
    else:
        target.write_text(svg, encoding="utf-8")
    sys.stderr.write(f"wrote {target}\n")


def _load_png_renderer(option: str) -> Any:
    """Return the PNG renderer; raise UnsupportedEnvironment if it has no font, because it would omit all text."""
    try:
        resvg = import_module("resvg_py")
    except ImportError:
        raise UnsupportedEnvironment(f"{option}: PNG requires `pip install 'pliant[plots]'`; or use FILE.svg") from None
    with_text, without_text = (resvg.svg_to_bytes(svg_string=_FONT_TEST_SVG.format(text)) for text in ("W", ""))
    if with_text == without_text:
        raise UnsupportedEnvironment(f"{option}: PNG requires a font (on Debian: fonts-dejavu-core), or use FILE.svg")
    return resvg
