"""What each client does on the embedded cluster: files, from which the tables of docs/clients.md are rendered.

A test module that runs clients has a file in `results/`. Its tests record each check that a client has passed:

    def test_a_program_lists_pods(client_results: ClientResults) -> None:
        ...
        client_results.record("kr8s 0.20.15", "list")

An ordinary run fails if the file does not contain what was recorded. `scripts/golden tests/clients/test_X.py` rewrites
the file, and `scripts/golden tests/golden/test_docs.py` then the page, which has the table `clients_X`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.golden.files import REWRITES, check_golden

RESULTS = Path(__file__).with_name("results")
PASSED = "yes"

Results = dict[str, dict[str, str]]
"""By client and check."""


class ClientResults:
    """The checks that clients passed in this run of a test module."""

    def __init__(self, name: str) -> None:
        self._module = f"test_{name}.py"
        self._path = RESULTS / f"{name}.json"
        self._expected = read_results(name)
        self.recorded: Results = {}

    def record(self, client: str, check: str, result: str = PASSED) -> None:
        """Record a check, with a few words if it passed in part; fail if the page does not say so."""
        self.recorded.setdefault(client, {})[check] = result
        expected = self._expected.get(client, {}).get(check)
        if not os.environ.get(REWRITES) and expected != result:
            told = f"{self._path.name} says {expected!r} for {client}, {check}"
            raise AssertionError(f"{told}: run scripts/golden tests/clients/{self._module} tests/golden/test_docs.py")

    def check_file(self) -> None:
        """Fail if the file has checks of these clients that were not recorded; rewrite it on request."""
        others = {} if os.environ.get(REWRITES) else self._expected
        check_golden(self._path, json.dumps(others | self.recorded, indent=1, ensure_ascii=False) + "\n")


def read_results(name: str) -> Results:
    path = RESULTS / f"{name}.json"
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    return found


def result_rows(results: Mapping[str, Mapping[str, str]]) -> Iterator[list[str]]:
    """Yield one row for each check, with the result of each client; `–` if a client does not have the check."""
    checks = dict.fromkeys(check for passed in results.values() for check in passed)
    for check in checks:
        yield [check, *(passed.get(check, "–") for passed in results.values())]
