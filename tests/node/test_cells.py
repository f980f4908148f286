"""Where control groups can be made, the kernel keeps the limits of containers; nothing is left of them."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pliant.embedded.agent.isolation.cgroups import CgroupManager
from tests.node.running import running, state

ASK = """
from pliant.embedded.agent.isolation.cgroups import CgroupManager
print(CgroupManager.create_if_permitted() is not None)
"""


def _can_be_made() -> bool:
    """Asked by another process, for whoever asks leaves a cleaner behind."""
    asked = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, timeout=30)
    return asked.stdout.strip() == "True"


needed = pytest.mark.skipif(
    not _can_be_made(), reason="this machine lets its users make no control groups: limits are sampled here"
)


def _folders() -> list[Path]:
    return [folder for folder in Path("/sys/fs/cgroup").rglob("pliant-*") if folder.is_dir()]


@pytest.fixture
def nothing_before() -> Iterator[None]:
    """Groups of earlier tests are gone."""
    _wait_until_gone()
    yield
    _wait_until_gone()


def _wait_until_gone() -> None:
    end = time.monotonic() + 15
    while _folders():
        assert time.monotonic() < end, f"left: {_folders()}"
        time.sleep(0.05)  # until the cleaner has come to it


@needed
@pytest.mark.usefixtures("nothing_before")
async def test_the_kernel_kills_a_container_that_outgrows_its_limit_at_once(tmp_path: Path, network: str) -> None:
    limits = {"limits": {"memory": "64Mi", "cpu": "500m"}}
    grow = "print(open('/proc/self/cgroup').read(), flush=True); held = bytearray(b'x' * (400 << 20)); print('grown')"
    async with running(tmp_path) as up:
        await up.pod("a", [{"name": "main", "command": ["python3", "-c", grow], "resources": limits}])
        pod = await up.finished("a")
        assert "grown" not in (said := await up.output("a"))
        assert "/pliant-" in said
        assert state(pod)["terminated"]["reason"] == "OOMKilled"


@needed
@pytest.mark.usefixtures("nothing_before")
def test_groups_go_when_their_maker_is_killed() -> None:
    script = """
        from pliant.embedded.agent.isolation.cgroups import CgroupManager
        import time
        cgroups = CgroupManager.create_if_permitted()
        print(cgroups.create_cgroup("a", {"memory_limit": 1 << 20}), flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        group = Path(maker.stdout.readline().strip())
        assert (group / "memory.max").read_text().strip() == str(1 << 20)
        maker.send_signal(signal.SIGKILL)
    _wait_until_gone()


def test_where_there_is_no_such_hierarchy_there_are_no_cells(tmp_path: Path) -> None:
    assert CgroupManager.create_if_permitted(str(tmp_path)) is None
