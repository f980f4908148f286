"""Draws recorded terminals as one SVG that moves: each screen is a strip of film behind a window."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.terminal import Row, Run

Film = Sequence[tuple[float, tuple[Row, ...]]]
"""What was to be seen from which second on."""

CELL, LINE, FONT = 8.4, 19, 14
MARGIN, BAR, GAP = 16, 34, 14
PALETTE = (
    "#484f58", "#ff7b72", "#3fb950", "#e3b341", "#58a6ff", "#bc8cff", "#39c5cf", "#c9d1d9",
    "#6e7681", "#ffa198", "#56d364", "#f2cc60", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
)  # fmt: skip
INK = "#e6edf3"
COLOURS = "".join(f".c{number}{{fill:{colour}}}" for number, colour in enumerate(PALETTE))
STYLE = f"""\
text{{font:{FONT}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{INK};white-space:pre}}
.b{{font-weight:600}}.f{{opacity:.6}}.t{{fill:#8b949e;font-size:12px}}
{COLOURS}
@media (prefers-reduced-motion){{.film{{animation:none!important}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A recorded terminal."""

    title: str
    columns: int
    rows: int
    film: Film

    @property
    def height(self) -> int:
        """Of the whole window, in pixels."""
        return BAR + self.rows * LINE + MARGIN


def svg(windows: Sequence[Window], seconds: float) -> str:
    """All windows, one above the other; after so many seconds they begin again."""
    width = max(window.columns for window in windows) * CELL + 2 * MARGIN
    height = sum(window.height for window in windows) + GAP * (len(windows) - 1)
    parts, top = [], 0
    for number, window in enumerate(windows):
        parts.append(_window(window, f"w{number}", top, seconds))
        top += window.height + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(windows[0].title)}">\n'
        f"<style>{STYLE}</style>\n{''.join(parts)}</svg>\n"
    )


def _window(window: Window, name: str, top: int, seconds: float) -> str:
    width = window.columns * CELL + 2 * MARGIN
    dots = "".join(
        f'<circle cx="{18 + 18 * place}" cy="17" r="5.5" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<g transform="translate(0 {top})">\n'
        f'<rect width="{width:g}" height="{window.height}" rx="9" fill="#0d1117" stroke="#30363d"/>{dots}\n'
        f'<text class="t" x="{width / 2:g}" y="21" text-anchor="middle">{escape(window.title)}</text>\n'
        f'<svg x="{MARGIN}" y="{BAR}" width="{window.columns * CELL:g}" height="{window.rows * LINE}">\n'
        f"{_strip(window, name, seconds)}</svg>\n</g>\n"
    )


def _strip(window: Window, name: str, seconds: float) -> str:
    """Every picture below the one before it, and the moves that bring each of them behind the window."""
    known: dict[Row, str] = {}
    film, height = [], window.rows * LINE
    for number, (_, rows) in enumerate(window.film):
        for place, row in enumerate(rows):
            if row:
                line = known.setdefault(row, f"{name}{len(known)}")
                film.append(f'<use href="#{line}" y="{number * height + place * LINE}"/>')
    moves = "".join(
        f"{100 * at / seconds:.2f}%{{transform:translateY(-{number * height}px)}}"
        for number, (at, _) in enumerate(window.film)
    )
    last = (len(window.film) - 1) * height
    lines = "".join(f'<g id="{line}">{_row(row)}</g>\n' for row, line in known.items())
    # Whoever cannot see it move sees the end.
    return (
        f"<style>@keyframes {name}{{{moves}}}\n"
        f"#{name}{{transform:translateY(-{last}px);animation:{name} {seconds:g}s steps(1,end) infinite}}</style>\n"
        f'<defs>\n{lines}</defs>\n<g id="{name}" class="film">{"".join(film)}</g>\n'
    )


def _row(row: Row) -> str:
    return "".join(map(_run, row))


def _run(run: Run) -> str:
    """Words at their place; bars and rules are drawn, as fonts leave gaps between their letters."""
    parts, column = [], run.column
    for text in re.findall(r"█+|░+|─+|│|[^█░─│]+", run.text):
        spaces = len(text) - len(text.lstrip())
        parts.append(_piece(Run(column + spaces, text.strip(), run.look)))
        column += len(text)
    return "".join(parts)


def _piece(run: Run) -> str:
    left, width = run.column * CELL, len(run.text) * CELL
    colour = INK if run.look.colour is None else PALETTE[run.look.colour]
    if not run.text:
        return ""
    if run.text[0] in "█░":
        shade = ' opacity=".25"' if run.text[0] == "░" else ""
        return f'<rect x="{left:g}" y="4" width="{width:g}" height="{LINE - 8}" fill="{colour}"{shade}/>'
    if run.text[0] == "─":
        return f'<rect x="{left:g}" y="{LINE / 2:g}" width="{width:g}" height="1" fill="#484f58"/>'
    if run.text == "│":
        return f'<rect x="{left + CELL / 2:g}" width="1" height="{LINE}" fill="{colour}" opacity=".6"/>'
    look = run.look
    kinds = [f"c{look.colour}"] * (look.colour is not None) + ["b"] * look.is_bold + ["f"] * look.is_faint
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f'<text x="{left:g}" y="{FONT}" textLength="{width:g}"{kind}>{escape(run.text)}</text>'
