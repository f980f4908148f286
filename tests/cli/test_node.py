"""`pliant node`: nodes of a cluster that stays up are struck and healed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.ordinary_user import OrdinaryUser, running_cluster


@pytest.fixture(scope="module")
def up() -> Iterator[OrdinaryUser]:
    """A user whose cluster has two nodes with a GPU each; every test leaves them healthy."""
    with running_cluster("--nodes", "2", "--node-gpu", "1") as one:
        yield one


def test_a_node_is_struck_and_healed_in_every_way(up: OrdinaryUser) -> None:
    told = {
        ("kill", "node-0"): "node-0 is killed and not ready; no pod was running there\n"
        "have it back with: pliant node heal node-0\n",
        ("heal", "node-0"): "node-0 is ready\n",
        ("pause", "node-1"): "node-1 is paused and not ready; no pod was running there\n"
        "have it back with: pliant node heal node-1\n",
        ("heal", "node-1"): "node-1 is ready\n",
        ("gpu-fault", "node-1", "--message", "too hot"): "node-1 has a bad GPU: too hot\n"
        "have it back with: pliant node gpu-fault node-1 --heal\n",
        ("gpu-fault", "node-1", "--heal"): "the GPUs of node-1 are well\n",
    }
    for words, expected in told.items():
        ended = up.call("node", *words)
        assert (ended.code, ended.out) == (0, expected), ended.err


def test_mistakes_are_answered_with_what_to_do(up: OrdinaryUser) -> None:
    told = {
        ("kill", "node-7"): "there is no node `node-7` (there is node-0, node-1); was it deleted? "
        "`pliant node heal node-7`",
        ("heal", "node-7"): "the cluster never had a node `node-7` (there is node-0, node-1)",
        ("kill", "node-0", "--heal"): "--heal goes with gpu-fault; to have the node back, `pliant node heal node-0`",
    }
    for words, expected in told.items():
        ended = up.call("node", *words)
        assert ended.code == 2
        assert ended.err.splitlines()[-1] == f"error: {expected}"


def test_without_a_cluster_nothing_is_struck(user: OrdinaryUser) -> None:
    ended = user.call("node", "kill", "node-0")
    assert ended.code == 2
    assert "Traceback" not in ended.err
