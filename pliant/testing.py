"""Fixtures for pytest: `pytest_plugins = ["pliant.testing"]` in the conftest.py at the root of your tests.

def test_training(pliant_cluster):
    job = pliant_cluster.run("train.py", workers=2, timeout=60)
    assert job.succeeded, str(job.why())
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from pliant.api.cluster import TemporaryCluster
from pliant.api.functions import cluster
from pliant.api.options import ClusterOptions

_namespace_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pliant_cluster_options() -> ClusterOptions:
    """Return the options of the cluster of all tests; override this fixture to choose others."""
    return {}


@pytest.fixture(scope="session")
def pliant_session_cluster(
    pliant_cluster_options: ClusterOptions, pytestconfig: pytest.Config
) -> Iterator[TemporaryCluster]:
    """Start one cluster for all tests; programs start in the root directory of the tests."""
    options: ClusterOptions = {"workspace": pytestconfig.rootpath, **pliant_cluster_options}
    with cluster(**options) as started:
        yield started


@pytest.fixture
def pliant_cluster(pliant_session_cluster: TemporaryCluster) -> Iterator[TemporaryCluster]:
    """Return the cluster with a new namespace for this test; its jobs are deleted after the test."""
    own = pliant_session_cluster.create_namespace(f"test-{next(_namespace_numbers)}")
    yield own
    for job in own.list_jobs():
        job.delete()
