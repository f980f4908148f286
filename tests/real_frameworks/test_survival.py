"""A job under a real torchrun survives the loss of any worker and of its store, and ends with the same loss."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pliant
from pliant.api.cluster import TemporaryCluster
from tests.real_frameworks.environments import ENVIRONMENTS, missing
from tests.real_frameworks.survival import Training

TORCH = next(each for each in ENVIRONMENTS if each.name == "pytorch-elastic")
pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(900)]
STEPS = 1200


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TemporaryCluster]:
    if problem := missing(TORCH):
        pytest.skip(f"torch is not installed: {problem}")
    with pliant.cluster(nodes=2, workspace=tmp_path) as started:
        yield started


def test_torchrun_survives_all_that_may_happen(cluster: TemporaryCluster, tmp_path: Path) -> None:
    calm = Training(cluster, "calm", tmp_path, "/usr/bin/torchrun", steps=STEPS, size=2)
    expected = calm.loss()
    rough = Training(cluster, "rough", tmp_path, "/usr/bin/torchrun", steps=STEPS, size=2)
    rough.wait(lambda: rough.step > 0, "trained")
    rounds = [
        rough.survive("growing", lambda: rough.scale(4), 4)[1],
        rough.survive("shrinking", lambda: rough.scale(2), 2)[1],
        rough.survive("the loss of worker 1", lambda: rough.kill("worker-1"), 2)[1],
        rough.survive("the loss of worker 0", lambda: rough.kill("worker-0"), 2)[1],
    ]
    assert rounds == [1, 1, 1, 1]
    rough.survive("the loss of the store", lambda: rough.kill("rendezvous-0"), 2)
    assert abs(rough.loss() - expected) < 1e-6
    assert rough.job.state.restarts == 2, "the loss of the store is not charged"
