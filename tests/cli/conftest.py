"""Users and clusters for tests of the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.ordinary_user import OrdinaryUser, new_user, running_cluster


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    """A user with an empty home folder."""
    with new_user() as one:
        yield one


@pytest.fixture(scope="session")
def cluster() -> Iterator[OrdinaryUser]:
    """A user whose cluster of two nodes is up. All tests share it: each uses job names of its own."""
    with running_cluster("--nodes", "2") as one:
        yield one
