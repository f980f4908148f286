"""Folders that a program expects in its image: found in its last words, unless they are mounted or there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pliant.embedded.kubelet.environment.missing_directories import find_missing_directory
from tests.node.running import Running, running


@pytest.fixture
async def cluster(tmp_path: Path, network: str) -> AsyncIterator[Running]:
    async with running(tmp_path) as up:
        yield up


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("sh: 2: cd: can't cd to /home/no-one/", "/home/no-one"),
        ("epoch 1\nbash: line 1: cd: /home/no one: No such file or directory\n", "/home/no one"),
        ("workingDir '/home/no-one': No such file or directory", "/home/no-one"),
        ("/usr/bin/python3: can't open file '/home/no-one/a/train.py': [Errno 2] No such file", "/home/no-one/a"),
        ("python3: can't open file '/tmp/train.py': [Errno 2] No such file or directory", ""),
        ("sh: 2: cd: can't cd to data", ""),
        ("sh: 2: cd: can't cd to /mnt/mine/data", ""),
        ("out of luck", ""),
    ],
)
def test_a_folder_that_is_missing_is_named(said: str, missing: str) -> None:
    assert find_missing_directory(said, ["/mnt/mine/"]) == missing


@pytest.mark.parametrize(
    "container",
    [{"command": ["sh", "-c", "cd /home/no-one/ || exit 1"]}, {"command": ["true"], "workingDir": "/home/no-one"}],
)
async def test_a_pod_that_misses_a_folder_is_told_how_to_mount_it(cluster: Running, container: dict[str, str]) -> None:
    await cluster.pod("a", [{"name": "main", "terminationMessagePolicy": "FallbackToLogsOnError", **container}])
    await cluster.finished("a")
    told = dict(await cluster.warnings("a"))["MissingDirectory"]
    assert told.endswith("mount a directory there with --mount DIR:/home/no-one of `pliant up` or `pliant run`")


async def test_a_pod_that_fails_otherwise_is_told_nothing(cluster: Running) -> None:
    mine = {"volumeMounts": [{"name": "mine", "mountPath": "/mine"}], "command": ["sh", "-c", "cd /mine/no-one"]}
    policy = {"name": "main", "terminationMessagePolicy": "FallbackToLogsOnError"}
    await cluster.pod("a", [{**policy, **mine}], volumes=[{"name": "mine", "emptyDir": {}}])
    await cluster.finished("a")
    assert "MissingDirectory" not in dict(await cluster.warnings("a"))
