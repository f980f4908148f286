"""Whatever ends the parent, and whenever: no process, mount, namespace or network link is left."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pliant.embedded.kubelet.runtime.messages import ContainerExit
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from tests.depth import sample
from tests.node.conftest import Network, Node, ordinary

_PR_SET_CHILD_SUBREAPER = 36
_ROOT = Path(__file__).parents[2]
ENDINGS = [signal.SIGKILL, *sample((signal.SIGTERM, signal.SIGINT), 0, "signals")]
"""Nobody can answer SIGKILL; deep runs try those that a program can."""


@pytest.fixture
def adopted() -> Iterator[None]:
    """Every process below this one that loses its parent becomes this one's child, so that none can hide."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextmanager
def started(data: Path, network: str = "private") -> Iterator[subprocess.Popen[bytes]]:
    """A parent that has begun to start, and is gone afterwards even if the test fails."""
    command = [sys.executable, "-m", "tests.node.victim", str(data), network]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE) as parent:
        try:
            yield parent
        finally:
            parent.kill()


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize("number", ENDINGS)
def test_nothing_survives_a_parent_that_is_up(data: Path, number: signal.Signals) -> None:
    before, others = _traces(), set(_descendants(os.getpid()))
    with started(data) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        family = _descendants(parent.pid)
        assert len(family) >= 6
        networks = _networks(family) - _networks([os.getpid()])
        assert len(networks) == 3
        parent.send_signal(number)
        _expect_all_gone(family)
    _reap_adopted(others)
    assert not networks & _networks(int(each.name) for each in Path("/proc").glob("[0-9]*"))
    assert _traces() == before


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize("number", ENDINGS)
def test_nothing_survives_a_parent_without_namespaces(data: Path, number: signal.Signals) -> None:
    others = set(_descendants(os.getpid()))
    with started(data, "host") as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        _wait_for_descendants(parent.pid, 9)
        family = _descendants(parent.pid)
        parent.send_signal(number)
        _expect_all_gone(family)
    _reap_adopted(others)


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize("step", sample(range(8), 3, "steps of starting"))
def test_nothing_survives_a_parent_killed_while_starting(data: Path, step: int, network: Network) -> None:
    before, others = _traces(), set(_descendants(os.getpid()))
    with started(data, network) as parent:
        _wait_for_descendants(parent.pid, step)
        parent.kill()
        parent.wait()
        _expect_all_gone([process for process in _descendants(os.getpid()) if process not in others])
    _reap_adopted(others)
    assert _traces() == before


async def test_an_agent_that_is_killed_takes_its_pods_along(data: Path, network: Network) -> None:
    async with NodeAgentClient.start(replace(ordinary(data), network_mode=network)) as agent:
        await _start_stubborn(Node(agent, data))
        family = _descendants(agent.pid)
        os.kill(agent.pid, signal.SIGKILL)
        _expect_all_gone(family)


async def test_a_watcher_that_is_killed_leaves_nothing_either(data: Path) -> None:
    async with NodeAgentClient.start(replace(ordinary(data), network_mode="host")) as agent:
        ending = await _start_stubborn(Node(agent, data))
        watcher, *family = _descendants(agent.pid)
        assert len(family) >= 3
        os.kill(watcher, signal.SIGKILL)
        assert await ending == ContainerExit(137, 9)
        _expect_all_gone(family)


async def test_what_outlives_everybody_is_found_by_the_next_agent(data: Path) -> None:
    launch = replace(ordinary(data), network_mode="host")
    async with NodeAgentClient.start(launch) as agent:
        await _start_stubborn(Node(agent, data))
        family = _descendants(agent.pid)
        # Nobody hears of the end of the others: as if all were killed in the same moment.
        for each in (family[0], agent.pid):
            os.kill(each, signal.SIGSTOP)
        for each in (family[0], agent.pid):
            os.kill(each, signal.SIGKILL)
        _expect_all_gone(family[:2])
        assert any(Path(f"/proc/{each}").exists() for each in family[2:])
    async with NodeAgentClient.start(launch):
        _expect_all_gone(family)


async def _start_stubborn(node: Node) -> asyncio.Future[ContainerExit]:
    """A container with processes that left their parents and sessions; it has begun all of them."""
    gate = node.data / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    script = f"trap '' TERM HUP INT; (setsid sh -c 'setsid sleep 600 & echo up > {gate}; sleep 600' &); sleep 600"
    await node.agent.create_pod("a", "a")
    ending = await node.agent.start_container("a", "main", node.command("sh", "-c", script))
    await asyncio.to_thread(gate.read_text)
    return ending


def _traces() -> tuple[str, list[str]]:
    """What an ordinary process sees of mounts and network links."""
    return Path("/proc/self/mountinfo").read_text(), sorted(each.name for each in Path("/sys/class/net").iterdir())


def _networks(processes: Iterable[int]) -> set[str]:
    """The network namespaces in which processes live."""
    found = set()
    for process in processes:
        with suppress(OSError):
            found.add(str(Path(f"/proc/{process}/ns/net").readlink()))
    return found


def _descendants(root: int) -> list[int]:
    """Every process below `root`."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = stat.read_text().rpartition(")")[2].split()[1]
            children.setdefault(int(parent), []).append(int(stat.parent.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found[1:]


def _expect_all_gone(family: list[int]) -> None:
    for process in family:
        with suppress(ProcessLookupError):
            handle = os.pidfd_open(process)
            assert select.select([handle], [], [], 10)[0], "a process is still there"
            os.close(handle)


def _wait_for_descendants(parent: int, count: int) -> None:
    """Return as soon as the parent has so many processes below it."""
    for _ in range(100_000):
        if len(_descendants(parent)) >= count:
            return
    pytest.fail(f"{count} processes never appeared")


def _reap_adopted(others: set[int]) -> None:
    """Collect what was adopted; there may be zombies, and nothing else."""
    for process in set(_descendants(os.getpid())) - others:
        with suppress(ChildProcessError):
            assert os.waitpid(process, os.WNOHANG)[0] == process, "a process is still there"
