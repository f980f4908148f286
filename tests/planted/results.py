"""What is known of each bug: kept in a file, one line for each answer, so that a run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.planted.bug import Bug

FILE = Path(__file__).with_name("results.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the tests of one group made of one bug."""

    bug: str
    digest: str
    group: str
    """The group of `scripts/test`; empty for the default choice."""
    is_found: bool
    test: str = ""
    """The first test that failed; empty if none did, or if the time limit was reached."""
    seconds: float = 0.0
    is_whole: bool = False
    """Whether all tests of the group were run, not only the likely ones."""
    unreliable: tuple[str, ...] = ()
    """Tests that failed without the bug as well; they count for nothing."""


Results = Mapping[tuple[str, str], Result]
"""By the name of the bug and the group."""


def read_results(bugs: Iterable[Bug], file: Path = FILE) -> dict[tuple[str, str], Result]:
    """Read the latest result of every bug; those for another version of a bug are left out."""
    digests = {bug.name: bug.digest for bug in bugs}
    lines = file.read_text().splitlines() if file.exists() else []
    every = [Result(**{**(said := json.loads(line)), "unreliable": tuple(said["unreliable"])}) for line in lines]
    return {(each.bug, each.group): each for each in every if digests.get(each.bug) == each.digest}


def append_result(result: Result, file: Path = FILE) -> None:
    """Add one result."""
    with file.open("a") as lines:
        lines.write(_line(result))


def write_results(bugs: Iterable[Bug], file: Path = FILE) -> Results:
    """Rewrite the file: one line for each result that still counts, in the order of the bugs."""
    ordered = list(bugs)
    places = {bug.name: place for place, bug in enumerate(ordered)}
    kept = dict(sorted(read_results(ordered, file).items(), key=lambda entry: (places[entry[0][0]], entry[0][1])))
    file.write_text("".join(map(_line, kept.values())))
    return kept


def _line(result: Result) -> str:
    return json.dumps(asdict(result)) + "\n"
