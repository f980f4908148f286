"""A node agent that runs as an ordinary user, whoever runs the tests."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from pliant.embedded.agent.container.config import ContainerConfig, Mount
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.messages import ContainerExit
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from tests.depth import sample
from tests.node import running

Network = Literal["private", "host"]
NOBODY = (65534, 65534)
ONLY_PRIVATE = pytest.mark.network("private")
"""For what pods have only in namespaces of their own."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try what asks for a network in one of the two modes, drawn anew each day; deep runs try both.

    A test may name the one mode that offers what it tests, or both.
    """
    if "network" in metafunc.fixturenames:
        named = metafunc.definition.get_closest_marker("network")
        modes = named.args if named else sample(("private", "host"), 1, metafunc.definition.nodeid)
        metafunc.parametrize("network", modes, indirect=True)


@pytest.fixture
def network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Network:
    """Whose network pods get."""
    monkeypatch.setattr(running, "NETWORK", request.param)
    found: Network = request.param
    return found


@pytest.fixture
def data() -> Iterator[Path]:
    """A data folder that belongs to the user as whom pods run, outside of pytest's private ones."""
    folder = Path(tempfile.mkdtemp(prefix="pliant-test-"))
    if os.getuid() == 0:
        os.chown(folder, *NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def agent(data: Path, network: Network) -> AsyncIterator[Node]:
    """An agent with one pod, `pod`."""
    async with NodeAgentClient.start(replace(ordinary(data), network_mode=network)) as started:
        node = Node(started, data)
        await node.agent.create_pod("pod", "worker-0")
        yield node


def ordinary(data: Path) -> AgentOptions:
    """How to start an agent that is nobody special."""
    if os.getuid() != 0:
        return AgentOptions(data_dir=data)
    # The interpreter of a virtual environment often lies in root's own home.
    return AgentOptions(data_dir=data, uid_gid=NOBODY, interpreter="/usr/bin/python3")


class Node:
    """An agent and short ways to use it."""

    def __init__(self, agent: NodeAgentClient, data: Path) -> None:
        self.agent = agent
        self.data = data
        self._runs = 0

    def command(self, *argv: str, mounts: list[Mount] | None = None, working_dir: str = "/") -> ContainerConfig:
        """A command with its own log."""
        self._runs += 1
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        log_path = str(self.data / f"{self._runs}.log")
        return ContainerConfig(
            argv=list(argv), env=env, working_dir=working_dir, log_path=log_path, mounts=mounts or []
        )

    async def sh(self, script: str, *, pod: str = "pod", mounts: list[Mount] | None = None) -> str:
        """What a shell script prints in a pod."""
        command = self.command("sh", "-ec", script, mounts=mounts)
        ending = await (await self.agent.start_container(pod, str(self._runs), command))
        printed = Path(command["log_path"]).read_text()
        assert ending == ContainerExit(0), printed
        return printed.strip()

    def show(self, source: Path, target: str, *, readonly: bool = False, pod_owned: bool = False) -> Mount:
        """A mount of a host path."""
        return Mount(target=target, source=str(source), readonly=readonly, pod_owned=pod_owned)


PYTHON = "/usr/bin/python3" if os.getuid() == 0 else sys.executable
"""An interpreter that pods may run."""


@asynccontextmanager
async def listening(node: Node, pod: str, port: int, answer: str) -> AsyncIterator[None]:
    """A server in a pod that has begun to listen."""
    script = (
        f"import socket; s = socket.create_server(('0.0.0.0', {port}))\n"
        f"open('{node.data}/{pod}.up', 'w').close()\n"
        f"while True: s.accept()[0].send(b'{answer}')"
    )
    os.mkfifo(node.data / f"{pod}.up")
    if os.getuid() == 0:
        os.chown(node.data / f"{pod}.up", *NOBODY)
    await node.agent.start_container(pod, "server", node.command(PYTHON, "-c", script))
    await node.sh(f"cat {node.data}/{pod}.up", pod=pod)
    yield
