"""What lasts when a cluster goes down and comes up again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pliant.kube.resources import PERSISTENT_VOLUME_CLAIMS
from tests.node.running import Pod, running

pytestmark = pytest.mark.usefixtures("network")

CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


async def test_claims_and_sidecars_are_there_again(tmp_path: Path) -> None:
    mounts = {"volumeMounts": [{"name": "kept", "mountPath": "/kept"}]}
    main = {"name": "main", "command": ["sh", "-c", "echo x >> /kept/lives; wc -l < /kept/lives; exec sleep 60"]}
    beside = {"name": "beside", "image": "none", "restartPolicy": "Always", "command": ["sleep", "60"]}
    volumes = [{"name": "kept", "persistentVolumeClaim": {"claimName": "data"}}]
    async with running(tmp_path, durable=True) as cluster:
        await cluster.client.create(PERSISTENT_VOLUME_CLAIMS, "default", CLAIM)
        await cluster.pod("a", [main | mounts], initContainers=[beside], volumes=volumes, restartPolicy="Always")
        await cluster.until_said("a", "1")
    async with running(tmp_path, durable=True) as cluster:
        pod = await cluster.until("a", _is_back)
        assert pod["status"]["initContainerStatuses"][0]["restartCount"] == 1
        await cluster.until_said("a", "2")


def _is_back(pod: Pod) -> bool:
    told = pod["status"]["containerStatuses"][0]
    return bool(told["restartCount"] == 1 and told["ready"])
