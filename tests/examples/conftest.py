"""A cluster of several nodes for the examples, and a namespace of it for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.scenarios.cluster import IMPATIENT, Site, an_ordinary_user, cluster
from tests.scenarios.conftest import client, scene


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A cluster with an operator and nodes to lose."""
    with an_ordinary_user() as user, cluster(user, "--nodes", "3", *IMPATIENT) as started:
        yield started


__all__ = ["client", "scene", "site"]
