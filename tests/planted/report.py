"""The table of planted bugs in docs/testing.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.planted.bug import Bug
from tests.planted.results import Results
from tests.planted.tree import ROOT

PAGE = ROOT / "docs" / "testing.md"
BEGIN, END = "<!-- planted bugs: begin -->", "<!-- planted bugs: end -->"
DEFAULT, DEEP = "", "deep"


def render_table(bugs: Sequence[Bug], results: Results) -> str:
    """Render the results as Markdown, with a sentence that counts them."""
    rows = [(bug, _is_found(bug, results, DEFAULT), _is_found(bug, results, DEEP)) for bug in bugs]
    default = [found for _, found, _ in rows if found is not None]
    deep = [found for _, _, found in rows if found is not None]
    counts = f"`scripts/test` finds {sum(default)} of {len(default)}; `scripts/test deep` finds {sum(deep)}"
    lines = [
        f"{len(rows)} bugs. {counts} of {len(deep)}.",
        "",
        "| area | planted bug | found by `scripts/test` | deep |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {bug.area} | {bug.what} | {_words(found)}{_test(bug, results)} | {_words(deeply)} |"
        for bug, found, deeply in rows
    ]
    return "\n".join(lines) + "\n"


def _is_found(bug: Bug, results: Results, group: str) -> bool | None:
    """Tell whether a group finds a bug; None if that is not known. Deep runs all that the default choice runs."""
    default, own = results.get((bug.name, DEFAULT)), results.get((bug.name, group))
    if default is not None and default.is_found:
        return True
    return own.is_found if own is not None and (own.is_found or own.is_whole) else None


def _words(found: bool | None) -> str:
    return {True: "yes", False: "**no**", None: "not tried"}[found]


def _test(bug: Bug, results: Results) -> str:
    result = results.get((bug.name, DEFAULT))
    if result is None or not result.is_found:
        return ""
    return f", by `{result.test.partition('::')[0]}`" if result.test else ", by the time limit"


def write_table(bugs: Sequence[Bug], results: Results, page: Path = PAGE) -> None:
    """Replace the table on the page."""
    page.write_text(with_table(page.read_text(), render_table(bugs, results)))


def with_table(text: str, table: str) -> str:
    """Return the text of a page with another table between the two markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} … {END} on the page")
    return f"{head}{BEGIN}\n{table}{END}{tail}"
