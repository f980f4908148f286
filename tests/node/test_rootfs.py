"""Volumes appear where they are wanted, and the host's folders stay as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pliant.embedded.agent.container.config import Mount
from pliant.embedded.kubelet.runtime.messages import AgentRequestFailed
from tests.node.conftest import NOBODY, ONLY_PRIVATE, Node

pytestmark = ONLY_PRIVATE


async def test_mount_points_are_made_where_the_host_has_none(agent: Node) -> None:
    volume = _folder(agent.data / "volume", "hello")
    for target in ("/app", "/data/deep/down", "/etc/podinfo", "/usr/share/pliant/x", "/tmp/pliant-none/y"):
        assert await agent.sh(f"cat {target}/file", mounts=[agent.show(volume, target)]) == "hello"
        assert not Path(target).exists()


async def test_what_stood_beside_a_new_mount_point_is_still_there(agent: Node) -> None:
    mounts = [agent.show(_folder(agent.data / "volume", "x"), "/etc/podinfo")]
    shown = (await agent.sh("ls -A /etc", mounts=mounts)).split()
    assert sorted(shown) == sorted([*(each.name for each in Path("/etc").iterdir()), "podinfo"])
    assert await agent.sh("cat /etc/passwd", mounts=mounts) == Path("/etc/passwd").read_text().strip()


async def test_a_single_file_can_be_shown(agent: Node) -> None:
    volume = _folder(agent.data / "volume", "10.0.0.1 somebody")
    mounts = [agent.show(volume / "file", "/etc/hosts"), agent.show(volume / "file", "/etc/not-there/hosts")]
    assert await agent.sh("cat /etc/hosts", mounts=mounts) == "10.0.0.1 somebody"
    assert await agent.sh("cat /etc/not-there/hosts", mounts=mounts) == "10.0.0.1 somebody"


async def test_read_only_means_it(agent: Node) -> None:
    volume = _folder(agent.data / "volume", "x")
    mounts = [agent.show(volume, "/app", readonly=True), agent.show(volume, "/open")]
    assert "Read-only" in await agent.sh("(echo x > /app/new) 2>&1 || true; echo x > /open/new", mounts=mounts)
    assert (volume / "new").read_text() == "x\n"


async def test_a_mount_point_inside_a_volume_of_the_pod_is_made_there(agent: Node) -> None:
    outer, inner = _folder(agent.data / "outer", "out"), _folder(agent.data / "inner", "in")
    mounts = [agent.show(inner, "/data/sub"), agent.show(outer, "/data", pod_owned=True)]
    assert await agent.sh("cat /data/file /data/sub/file", mounts=mounts) == "outin"
    assert (outer / "sub").is_dir()


async def test_memory_is_shared_in_a_pod_and_not_with_others(agent: Node) -> None:
    shm = [Mount(target="/dev/shm", memory_name="shm", readonly=False, pod_owned=True)]
    await agent.sh("echo mine > /dev/shm/x", mounts=shm)
    assert await agent.sh("cat /dev/shm/x", mounts=shm) == "mine"
    await agent.agent.create_pod("second", "other")
    assert await agent.sh("ls -A /dev/shm", mounts=shm, pod="second") == ""


async def test_the_root_can_be_written_to_and_is_thrown_away(agent: Node) -> None:
    await agent.sh("mkdir /scratch; echo x > /scratch/x")
    assert not Path("/scratch").exists()
    assert "scratch" not in await agent.sh("ls /")
    assert "host" not in await agent.sh("ls -A /")


async def test_the_temporary_folder_is_the_hosts(agent: Node) -> None:
    assert await agent.sh(f"ls {agent.data} | grep -c log") != "0"


async def test_a_source_that_is_gone_is_named(agent: Node) -> None:
    mounts = [agent.show(agent.data / "gone", "/app")]
    with pytest.raises(AgentRequestFailed, match="No such file or directory"):
        await agent.agent.start_container("pod", "a", agent.command("true", mounts=mounts))


def _folder(path: Path, content: str) -> Path:
    path.mkdir()
    (path / "file").write_text(content)
    if os.getuid() == 0:
        os.chown(path, *NOBODY)
    return path
