"""What containers use is measured when somebody asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pliant.errors import NotFound
from pliant.schemas.quantity import parse_quantity
from tests.node.running import Running, running

pytestmark = pytest.mark.usefixtures("network")

GROUP = "/apis/metrics.k8s.io/v1beta1"
HOLD = "held = bytearray(100 << 20)\nprint('up', flush=True)\nwhile True: pass"


async def measured(cluster: Running, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await cluster.client.get_raw(f"{GROUP}{path}"))
    return answer


async def test_time_and_memory_are_told_of_containers_and_nodes(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        busy = {"name": "busy", "command": ["sh", "-c", 'python3 -c "$0"; true', HOLD]}
        lazy = {"name": "lazy", "command": ["sleep", "60"]}
        await cluster.pod(
            "p", [busy], labels={"x": "y"}, initContainers=[{**lazy, "image": "x", "restartPolicy": "Always"}]
        )
        await cluster.sh("over", "true")
        await cluster.finished("over")
        await cluster.until_said("p", "up")
        listed = await measured(cluster, "/namespaces/default/pods?labelSelector=x%3Dy")
        assert (listed["kind"], listed["apiVersion"]) == ("PodMetricsList", "metrics.k8s.io/v1beta1")
        (pod,) = listed["items"]
        used = {each["name"]: each["usage"] for each in pod["containers"]}
        # How much of a processor it gets is up to the machine.
        assert parse_quantity(used["lazy"]["cpu"]) < parse_quantity(used["busy"]["cpu"]) < 1.2
        assert 100 << 20 <= parse_quantity(used["busy"]["memory"]) < 150 << 20
        assert parse_quantity(used["lazy"]["cpu"]) < 0.05
        node = await measured(cluster, "/nodes/node-0")
        assert node["kind"] == "NodeMetrics"
        assert parse_quantity(node["usage"]["memory"]) >= 100 << 20
        with pytest.raises(NotFound):
            await measured(cluster, "/namespaces/default/pods/over")
        assert [each["metadata"]["name"] for each in (await measured(cluster, "/pods"))["items"]] == ["p"]
