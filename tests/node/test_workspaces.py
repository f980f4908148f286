"""A pod starts in the directory of its annotation, and may mount what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from pliant.embedded.program_annotations import WORKSPACE_ANNOTATION
from pliant.kube.resources import PODS
from tests.node.conftest import NOBODY, Network
from tests.node.running import running


def folder(data: Path, name: str) -> Path:
    path = data / name
    path.mkdir()
    if os.getuid() == 0:
        os.chown(path, *NOBODY)
    return path


async def test_a_pod_starts_and_mounts_in_its_own_directory(data: Path, network: Network) -> None:
    own, other = folder(data, "own"), folder(data, "other")
    (own / "train.py").write_text("ours")
    async with running(data, other) as cluster:
        container = {
            "name": "main",
            "image": "none",
            "command": ["sh", "-c", "pwd; cat train.py $0/train.py", str(own)],
        }
        volume = {"name": "v", "hostPath": {"path": str(own)}}
        spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
        metadata = {"name": "p", "annotations": {WORKSPACE_ANNOTATION: str(own)}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await cluster.client.create(PODS, "default", body)
        await cluster.finished("p")
        assert await cluster.output("p") == f"{own.resolve()}\noursours"
        missing = {"name": "q", "annotations": {WORKSPACE_ANNOTATION: str(data / "gone")}}
        await cluster.client.create(PODS, "default", {**body, "metadata": missing})
        reason, message = await cluster.warned("q")
        assert (reason, "gone' is not an existing directory; create it" in message) == ("FailedMount", True)
