"""A program that learns by shards, while its worker and its master are taken away."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS
from pliant.master.checkpoint import STATE_CONFIGMAP_KEY, state_configmap_name
from tests.scenarios.elastic import ElasticScene, master
from tests.scenarios.scene import fresh_name, played

RECORDS = 600
PROGRAM = f"""
import time
from pliant import elastic

job = elastic.join()
for shard in job.shards("train", size={RECORDS}, shard_size=5, shuffle=1):
    time.sleep(0.05)  # slow enough to be taken away in the middle
    print("learned", shard.start, shard.end, flush=True)
    job.beat()
"""


@pytest.fixture
async def stage(client: KubeClient) -> AsyncIterator[ElasticScene]:
    async with played(ElasticScene(client, fresh_name())) as scene:
        yield scene


def manifest(workers: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "pliant:0.1.0",
        "command": ["python", "-c", PROGRAM],
        "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}},
    }
    worker = {"replicas": workers, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": ElasticScene.jobs.api_version,
        "kind": ElasticScene.jobs.kind,
        "metadata": {"name": "shards", "annotations": {"pliant/clean": "running"}},  # logs are read at the end
        "spec": {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": {"worker": worker}},
    }


def learned(log: str) -> Counter[int]:
    found: Counter[int] = Counter()
    whole = log[: log.rfind("\n") + 1]  # the last line may be half written
    for line in whole.splitlines():
        if line.startswith("learned "):
            _, start, end = line.split()
            found.update(range(int(start), int(end)))
    return found


async def test_every_record_is_learned_though_a_worker_and_the_master_are_lost(stage: ElasticScene) -> None:
    await stage.submit(manifest(workers=2))
    first = await stage.until_master("shards")
    await stage.until_workers("shards", 0, 1)
    lost = await until_learning(stage, "shards-edljob-worker-1")
    await stage.delete_pod("shards-edljob-worker-1")
    await stage.delete_pod(master("shards"))
    await stage.until_master("shards", other_than=first)
    await stage.until_phase("shards", "Succeeded")
    kept = await stage.client.get(CONFIG_MAPS, stage.namespace, state_configmap_name("shards"))
    (data,) = json.loads(kept["data"][STATE_CONFIGMAP_KEY])["shards"]["datasets"]
    assert (data["next"], data["returned"], data["held"]) == (RECORDS // 5, [], {})
    others = [name for name in stage.pods if "-worker-" in name and name != "shards-edljob-worker-1"]
    found = sum([learned(await stage.log(name)) for name in others], Counter[int]())
    # What the lost one learned after the last look at its log is learned by nobody else.
    assert len(set(range(RECORDS)) - set(found) - set(lost)) < RECORDS // 3
    assert sum(found.values()) + sum(lost.values()) <= RECORDS + 10


async def until_learning(stage: ElasticScene, pod: str) -> Counter[int]:
    """What a worker has learned, once that is something."""
    found: Counter[int] = Counter()
    await stage.until(lambda: stage.pods[pod]["status"].get("phase") == "Running", f"{pod} runs")
    while len(found) < 50:
        found = learned(await stage.log(pod))
    return found
