"""Folders of the machine that every container sees because the user said so."""

from __future__ import annotations

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from pliant.cli.input.local_cluster_options import parse_mount
from pliant.embedded.agent.container.config import Mount
from tests.node.running import running


async def test_every_container_sees_what_is_shown(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("plenty")
    shown = tuple(
        Mount(target=target, source=str(outside), readonly=readonly, pod_owned=False)
        for target, readonly in (("/data/sets", True), ("/data/out", False))
    )
    (tmp_path / "home").mkdir()
    async with running(tmp_path, tmp_path / "home", mounts=shown) as cluster:
        script = "cat /data/sets/data.txt; touch /data/sets/no 2>/dev/null || echo ' read only'; touch /data/out/yes"
        assert await cluster.ran("a", script) == "plenty read only"
    assert sorted(each.name for each in outside.iterdir()) == ["data.txt", "yes"]


def test_a_mount_is_a_folder_and_a_path(tmp_path: Path) -> None:
    assert parse_mount(f"{tmp_path}:/data") == (tmp_path, "/data", False)
    assert parse_mount(f"{tmp_path}:/data/:ro") == (tmp_path, "/data", True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/tmp", "is not DIR:/PATH or DIR:/PATH:ro"),
        ("/tmp:data", "is not DIR:/PATH or DIR:/PATH:ro"),
        ("/no/such:/data", "`/no/such` is not a directory"),
        ("/tmp:/proc/", "is reserved"),
        ("/tmp:/", "is reserved"),
    ],
)
def test_a_senseless_mount_is_explained(text: str, why: str) -> None:
    with pytest.raises(ArgumentTypeError, match=why):
        parse_mount(text)
