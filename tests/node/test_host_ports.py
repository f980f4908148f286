"""Pods on the network of different nodes share the network of this machine, and are told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pliant.kube.resources import PODS
from tests.node.running import Running, is_running, running

PORT = 29500


@pytest.mark.network("private", "host")
@pytest.mark.usefixtures("network")
async def test_a_port_of_another_pod_on_the_network_of_the_machine_is_named_with_the_fix(tmp_path: Path) -> None:
    async with running(tmp_path, node_count=2) as cluster:
        await _start(cluster, "first", "node-0")
        await _start(cluster, "second", "node-1")
        reason, message = (await cluster.warnings("second"))[0]
        assert reason == "HostPortConflict"
        assert message.startswith(f"port {PORT} is also a port of the hostNetwork pod default/first")
        assert message.endswith("Use another port, or remove hostNetwork")
        assert await cluster.warnings("first") == []


async def test_ports_of_pods_with_their_own_network_or_that_are_gone_are_free(tmp_path: Path) -> None:
    async with running(tmp_path, node_count=2) as cluster:
        await _start(cluster, "own", "node-0", on_node_network=False)
        await _start(cluster, "gone", "node-0")
        await cluster.client.delete(PODS, "default", "gone")
        await cluster.until_gone("gone")
        await _start(cluster, "second", "node-1")
        assert [await cluster.warnings(name) for name in ("own", "gone", "second")] == [[], [], []]


async def _start(cluster: Running, name: str, node: str, *, on_node_network: bool = True) -> None:
    container = {"name": "main", "command": ["sleep", "60"], "ports": [{"containerPort": PORT}]}
    selector = {"kubernetes.io/hostname": node}
    await cluster.pod(name, [container], hostNetwork=on_node_network, nodeSelector=selector)
    await cluster.until(name, is_running)
