"""Runs the tests against one planted bug."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.planted.bug import Bug
from tests.planted.plugin import VARIABLE
from tests.planted.results import Result
from tests.planted.tree import Tree

NOTHING_COLLECTED = 5
"""The exit code of pytest when no test was selected."""
OWN_TESTS = "tests/planted/"
"""Left out: they notice that a file was edited, not that it is wrong."""
MOST_UNRELIABLE = 3
"""How many tests may fail without the bug before a run is given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How bugs are searched for."""

    group: str = ""
    likely_only: bool = False
    likely_seconds: float = 600.0
    whole_seconds: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How one run of `scripts/test` ended."""

    passed: bool
    timed_out: bool = False
    failed: tuple[str, ...] = ()
    output: str = ""


def examine(tree: Tree, bug: Bug, options: Options) -> Result:
    """Plant a bug and run the likely tests, then all others, until one fails because of it."""
    began = time.monotonic()
    unreliable: list[str] = []
    stages: list[tuple[Sequence[str], float]] = [(bug.likely, options.likely_seconds)]
    if not options.likely_only:
        stages.append(((), options.whole_seconds))
    found, test = False, ""
    for targets, seconds in stages:
        found, test = _search(tree, bug, options.group, targets, seconds, unreliable)
        if found:
            break
    return Result(
        bug=bug.name,
        digest=bug.digest,
        group=options.group,
        is_found=found,
        test=test,
        seconds=round(time.monotonic() - began, 1),
        is_whole=not found and not options.likely_only,
        unreliable=tuple(unreliable),
    )


def _search(
    tree: Tree, bug: Bug, group: str, targets: Sequence[str], seconds: float, unreliable: list[str]
) -> tuple[bool, str]:
    """Run tests against the bug; a failure counts only if the same test passes without the bug."""
    while len(unreliable) <= MOST_UNRELIABLE:
        with tree.planted(bug):
            run = run_tests(tree, group, targets, seconds, deselected=unreliable)
        if run.passed:
            return False, ""
        # Where no test could even be named, all of them must work again without the bug.
        again = run.failed[:1] or targets
        if run_tests(tree, group, again, seconds).passed:
            return True, run.failed[0] if run.failed else ""
        unreliable.append(run.failed[0] if run.failed else "scripts/test itself")
        if not run.failed:
            break
    return False, ""


def run_tests(tree: Tree, group: str, targets: Sequence[str], seconds: float, *, deselected: Sequence[str] = ()) -> Run:
    """Run `scripts/test` in the copy until the first failure, for so many seconds at most."""
    with tempfile.NamedTemporaryFile("r") as failures:
        Path(failures.name).chmod(0o666)  # as root the tests run as another user
        ignored = [f"--deselect={each}" for each in (OWN_TESTS, *deselected)]
        words = [*([group] if group else []), *targets, "-x", "-p", "tests.planted.plugin", *ignored]
        environment = {**os.environ, "PLIANT_VENV": str(tree.root / ".venv"), VARIABLE: failures.name}
        code, output = _run(["scripts/test", *words], tree.root, environment, seconds)
        failed = tuple(dict.fromkeys(failures.read().split("\n")[:-1]))
    return Run(passed=code in (0, NOTHING_COLLECTED), timed_out=code is None, failed=failed, output=output)


def _run(words: list[str], folder: Path, environment: dict[str, str], seconds: float) -> tuple[int | None, str]:
    """Run a command with all its children; the exit code is None if it took too long."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            words, cwd=folder, env=environment, start_new_session=True, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            code: int | None = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return code, output.read()
