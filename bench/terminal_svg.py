"""Renders recorded terminals as one animated SVG: frames are stacked, and the stack is shifted in steps."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from bench.terminal import Row, Run

Frames = Sequence[tuple[float, tuple[Row, ...]]]
"""The content of the screen, with the second from which it is shown."""

CELL_WIDTH, LINE_HEIGHT, FONT_SIZE = 8.4, 19, 14
MARGIN, TITLE_BAR_HEIGHT, GAP = 16, 34, 14
PALETTE = (
    "#484f58", "#ff7b72", "#3fb950", "#e3b341", "#58a6ff", "#bc8cff", "#39c5cf", "#c9d1d9",
    "#6e7681", "#ffa198", "#56d364", "#f2cc60", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc",
)  # fmt: skip
DEFAULT_COLOUR = "#e6edf3"
COLOUR_RULES = "".join(f".c{number}{{fill:{colour}}}" for number, colour in enumerate(PALETTE))
STYLE = f"""\
text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{DEFAULT_COLOUR};white-space:pre}}
.b{{font-weight:600}}.f{{opacity:.6}}.t{{fill:#8b949e;font-size:12px}}
{COLOUR_RULES}
@media (prefers-reduced-motion){{.frames{{animation:none!important}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalWindow:
    """A recorded terminal."""

    title: str
    columns: int
    rows: int
    frames: Frames

    @property
    def height(self) -> int:
        """The height of the whole window in pixels."""
        return TITLE_BAR_HEIGHT + self.rows * LINE_HEIGHT + MARGIN


def render_svg(windows: Sequence[TerminalWindow], seconds: float) -> str:
    """Render windows one above the other; the animation repeats after this number of seconds."""
    width = max(window.columns for window in windows) * CELL_WIDTH + 2 * MARGIN
    height = sum(window.height for window in windows) + GAP * (len(windows) - 1)
    parts, top = [], 0
    for number, window in enumerate(windows):
        parts.append(_render_window(window, f"w{number}", top, seconds))
        top += window.height + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img" aria-label="{escape(windows[0].title)}">\n'
        f"<style>{STYLE}</style>\n{''.join(parts)}</svg>\n"
    )


def _render_window(window: TerminalWindow, name: str, top: int, seconds: float) -> str:
    width = window.columns * CELL_WIDTH + 2 * MARGIN
    dots = "".join(
        f'<circle cx="{18 + 18 * index}" cy="17" r="5.5" fill="{colour}"/>'
        for index, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<g transform="translate(0 {top})">\n'
        f'<rect width="{width:g}" height="{window.height}" rx="9" fill="#0d1117" stroke="#30363d"/>{dots}\n'
        f'<text class="t" x="{width / 2:g}" y="21" text-anchor="middle">{escape(window.title)}</text>\n'
        f'<svg x="{MARGIN}" y="{TITLE_BAR_HEIGHT}" '
        f'width="{window.columns * CELL_WIDTH:g}" height="{window.rows * LINE_HEIGHT}">\n'
        f"{_render_frames(window, name, seconds)}</svg>\n</g>\n"
    )


def _render_frames(window: TerminalWindow, name: str, seconds: float) -> str:
    """Render the frames one below the other, and the keyframes that shift each of them into view."""
    line_ids: dict[Row, str] = {}
    uses, height = [], window.rows * LINE_HEIGHT
    for number, (_, rows) in enumerate(window.frames):
        for index, row in enumerate(rows):
            if row:
                line_id = line_ids.setdefault(row, f"{name}{len(line_ids)}")
                uses.append(f'<use href="#{line_id}" y="{number * height + index * LINE_HEIGHT}"/>')
    keyframes = "".join(
        f"{100 * start / seconds:.2f}%{{transform:translateY(-{number * height}px)}}"
        for number, (start, _) in enumerate(window.frames)
    )
    last = (len(window.frames) - 1) * height
    lines = "".join(f'<g id="{line_id}">{_render_row(row)}</g>\n' for row, line_id in line_ids.items())
    # Viewers without animation show the last frame.
    return (
        f"<style>@keyframes {name}{{{keyframes}}}\n"
        f"#{name}{{transform:translateY(-{last}px);animation:{name} {seconds:g}s steps(1,end) infinite}}</style>\n"
        f'<defs>\n{lines}</defs>\n<g id="{name}" class="frames">{"".join(uses)}</g>\n'
    )


def _render_row(row: Row) -> str:
    return "".join(map(_render_run, row))


def _render_run(run: Run) -> str:
    """Render text at its column; draw bars and lines as rectangles, because fonts leave gaps between characters."""
    parts, column = [], run.column
    for text in re.findall(r"█+|░+|─+|│|[^█░─│]+", run.text):
        spaces = len(text) - len(text.lstrip())
        parts.append(_render_segment(Run(column + spaces, text.strip(), run.style)))
        column += len(text)
    return "".join(parts)


def _render_segment(run: Run) -> str:
    left, width = run.column * CELL_WIDTH, len(run.text) * CELL_WIDTH
    colour = DEFAULT_COLOUR if run.style.colour is None else PALETTE[run.style.colour]
    if not run.text:
        return ""
    if run.text[0] in "█░":
        opacity = ' opacity=".25"' if run.text[0] == "░" else ""
        return f'<rect x="{left:g}" y="4" width="{width:g}" height="{LINE_HEIGHT - 8}" fill="{colour}"{opacity}/>'
    if run.text[0] == "─":
        return f'<rect x="{left:g}" y="{LINE_HEIGHT / 2:g}" width="{width:g}" height="1" fill="#484f58"/>'
    if run.text == "│":
        return f'<rect x="{left + CELL_WIDTH / 2:g}" width="1" height="{LINE_HEIGHT}" fill="{colour}" opacity=".6"/>'
    style = run.style
    classes = [f"c{style.colour}"] * (style.colour is not None) + ["b"] * style.is_bold + ["f"] * style.is_faint
    attribute = f' class="{" ".join(classes)}"' if classes else ""
    return f'<text x="{left:g}" y="{FONT_SIZE}" textLength="{width:g}"{attribute}>{escape(run.text)}</text>'
