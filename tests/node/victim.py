"""A parent to be killed: starts an agent and pods that do their best to outlive it, then waits forever."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from tests.node.conftest import Network, Node, ordinary

_STUBBORN = "trap '' TERM HUP INT; (setsid sh -c 'setsid sleep 600 & sleep 600' &); sleep 600"


async def main(data: Path, network: Network) -> None:
    """Start everything, say so, and stay."""
    async with NodeAgentClient.start(replace(ordinary(data), network_mode=network)) as agent:
        node = Node(agent, data)
        for pod in ("a", "b"):
            await agent.create_pod(pod, pod)
            await agent.start_container(pod, "main", node.command("sh", "-c", _STUBBORN))
        print("up", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), "host" if sys.argv[2] == "host" else "private"))
