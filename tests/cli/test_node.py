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
        ("kill", "node-0"): "node-0 is killed and NotReady; no pod was running on it\n"
        "recover it with: pliant node recover node-0\n",
        ("recover", "node-0"): "node-0 is Ready\n",
        ("pause", "node-1"): "node-1 is paused and NotReady; no pod was running on it\n"
        "recover it with: pliant node recover node-1\n",
        ("recover", "node-1"): "node-1 is Ready\n",
        ("gpu-fault", "node-1", "--message", "too hot"): "node-1 has an unhealthy GPU: too hot\n"
        "recover it with: pliant node gpu-fault node-1 --recover\n",
        ("gpu-fault", "node-1", "--recover"): "all GPUs of node-1 are healthy\n",
    }
    for words, expected in told.items():
        ended = up.call("node", *words)
        assert (ended.code, ended.out) == (0, expected), ended.err


def test_mistakes_are_answered_with_what_to_do(up: OrdinaryUser) -> None:
    told = {
        ("kill", "node-7"): "node `node-7` not found (nodes: node-0, node-1); if it was deleted, run "
        "`pliant node recover node-7`",
        ("recover", "node-7"): "the cluster has no node `node-7` (nodes: node-0, node-1)",
        (
            "kill",
            "node-0",
            "--recover",
        ): "--recover requires gpu-fault; to recover the node, run `pliant node recover node-0`",
    }
    for words, expected in told.items():
        ended = up.call("node", *words)
        assert ended.code == 2
        assert ended.err.splitlines()[-1] == f"error: {expected}"


def test_without_a_cluster_nothing_is_struck(user: OrdinaryUser) -> None:
    ended = user.call("node", "kill", "node-0")
    assert ended.code == 2
    assert "Traceback" not in ended.err
