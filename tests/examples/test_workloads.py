"""The example with a Job, a training job and a Deployment: each of them gets what the one before has written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.cli.cluster.local_operator import run_local_operator
from pliant.embedded.controllers.workloads.views import DEPLOYMENTS, JOBS
from pliant.kube.client import KubeClient
from pliant.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Resource
from pliant.model.operator_config import OperatorConfig
from tests.node.running import running

EXAMPLE = Path(__file__).parents[2] / "examples" / "workloads" / "training.yaml"
TRAINING_JOBS = Resource("elasticdeeplearning.ai", "v1", "aitrainingjobs", "AITrainingJob")
RESOURCES = {each.kind: each for each in (PERSISTENT_VOLUME_CLAIMS, SERVICES, JOBS, DEPLOYMENTS, TRAINING_JOBS)}


@pytest.mark.deep
async def test_data_is_prepared_trained_on_and_served(tmp_path: Path) -> None:
    async with running(tmp_path) as here, run_local_operator(here.cluster, OperatorConfig(), None):
        for body in yaml.safe_load_all(EXAMPLE.read_text()):
            await here.client.create(RESOURCES[body["kind"]], "default", body)
        await until(here.client, TRAINING_JOBS, "train", lambda status: status.get("phase") == "Succeed")
        await until(here.client, DEPLOYMENTS, "results", lambda status: status.get("availableReplicas") == 1)
        prepared = await until(here.client, JOBS, "prepare", lambda status: "completionTime" in status)
        assert prepared["completedIndexes"] == "0-2"
        [server] = (await here.client.list(PODS, "default", labels="app=results")).items
        url = f"http://{server['status']['podIP']}:8080/result.json"
        script = f"python3 -c 'import urllib.request as r; print(r.urlopen(\"{url}\").read().decode())'"
        assert json.loads(await here.ran("reader", script)) == {"slope": 3.0, "offset": 1.0}


async def until(client: KubeClient, resource: Resource, name: str, holds: Any) -> dict[str, Any]:
    """Return the status of an object when it is as wanted."""
    async with asyncio.timeout(30):
        while True:
            status: dict[str, Any] = (await client.get(resource, "default", name)).get("status") or {}
            if holds(status):
                return status
            await asyncio.sleep(0.05)
