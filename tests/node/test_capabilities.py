"""What containers may do beyond an ordinary process: nothing, also when root runs the cluster."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pliant.embedded.kubelet.environment.capabilities import CAPABILITIES_REASON
from pliant.embedded.kubelet.runtime.agent_process import AgentOptions
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from tests.node.conftest import Network, Node
from tests.node.running import running

NOTHING = {"NoNewPrivs": "1", **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), "0" * 16)}
SHOW_STATUS = "id -u; cat /proc/self/status"
BOTH = pytest.mark.network("private", "host")


async def show_as_this_user(data: Path, network: Network) -> None:
    """Print the user and the status of a container."""
    options = AgentOptions(data_dir=data, network_mode=network)
    async with NodeAgentClient.start(options) as agent:
        node = Node(agent, data)
        await agent.create_pod("pod", "worker-0")
        print(await node.sh(SHOW_STATUS))


def read_status(text: str) -> tuple[str, dict[str, str]]:
    """The user and the fields of /proc/self/status that concern rights."""
    user, *lines = text.splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return user, {name: value.strip() for name, value in fields.items() if name.startswith(("Cap", "NoNewPrivs"))}


@BOTH
async def test_a_container_of_an_ordinary_user_has_no_capabilities(agent: Node) -> None:
    _, rights = read_status(await agent.sh(SHOW_STATUS))
    assert {name: rights[name] for name in NOTHING} == NOTHING


@BOTH
def test_a_container_of_root_has_no_capabilities_and_cannot_regain_them(data: Path, network: Network) -> None:
    become_root = [] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user"]
    if become_root and _cannot_become_root():
        pytest.skip("containers of root: this machine allows no user namespaces; run the tests as root instead")
    program = f"from tests.node.test_capabilities import main; main({str(data)!r}, {network!r})"
    done = subprocess.run(
        [*become_root, sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    user, rights = read_status(done.stdout)
    assert user == "0"
    assert rights == {**NOTHING, "CapBnd": "0" * 16}


def main(data: str, network: Network) -> None:
    asyncio.run(show_as_this_user(Path(data), network))


def _cannot_become_root() -> bool:
    if shutil.which("unshare") is None:
        return True
    tried = subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True, check=False)
    return tried.returncode != 0


async def test_requested_capabilities_are_refused_with_an_event(data: Path) -> None:
    wanted = {"capabilities": {"add": ["IPC_LOCK", "SYS_PTRACE"], "drop": ["ALL"]}}
    async with running(data) as cluster:
        container = {"name": "main", "command": ["true"], "securityContext": wanted}
        await cluster.pod("wants", [container])
        await cluster.finished("wants")
        [(reason, message)] = await cluster.warnings("wants")
    assert reason == CAPABILITIES_REASON
    assert "spec.containers[0].securityContext.capabilities.add: IPC_LOCK, SYS_PTRACE" in message
