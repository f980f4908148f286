"""Fixtures of tests that run clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.results import ClientResults
from tests.scenarios.cluster import Site, an_ordinary_user, cluster


@pytest.fixture(scope="module")
def client_results(request: pytest.FixtureRequest) -> Iterator[ClientResults]:
    """The results of a test module: `test_kubectl.py` has `results/kubectl.json`."""
    results = ClientResults(request.path.stem.removeprefix("test_"))
    yield results
    selects_tests = request.config.option.keyword or any("::" in word for word in request.config.args)
    if not selects_tests and not request.session.testsfailed:
        results.check_file()


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """An embedded cluster without an operator."""
    with an_ordinary_user() as user, cluster(user, "--no-operator") as started:
        yield started
