"""Environments that no variable can hold: members read them from files."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from pliant.kube.codec import WatchEventType
from pliant.kube.resources import CONFIG_MAPS
from tests.scenarios.jobs import Manifest, group, job, per_attempt
from tests.scenarios.scene import PATIENCE, Scene

LONG_NAME = "a-name-as-long-as-names-of-jobs-may-be-in-this-world"
LOOK = 'tr , "\\n" <"$WORKER_HOSTS_FILE"'
REPORT = f'echo "${{WORKER_HOSTS:-no variable}}"; {LOOK} | wc -l; {LOOK} | tail -n 1; echo; wc -c <"$WORKER_HOSTS_FILE"'


def listening(script: str, replicas: int, ports: int, **fields: Any) -> Manifest:
    """A group with so many ports that its list of hosts is a long one."""
    made = group(script, replicas, **fields)
    numbers = range(10_000, 10_000 + ports)
    made["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": number} for number in numbers]
    return made


async def environments(scene: Scene) -> list[dict[str, Any]]:
    """The ConfigMaps that are ours."""
    listing = await scene.client.list(CONFIG_MAPS, scene.namespace, labels=f"TrainingJobName={LONG_NAME}")
    return listing.items


async def until_deleted(scene: Scene, held: dict[str, Any]) -> None:
    """Wait until a ConfigMap is gone."""
    name, since = held["metadata"]["name"], held["metadata"]["resourceVersion"]
    changes = scene.client.watch(CONFIG_MAPS, scene.namespace, resource_version=since, fields=f"metadata.name={name}")
    async with asyncio.timeout(PATIENCE), aclosing(changes):
        async for change in changes:
            if change.type is WatchEventType.DELETED:
                return
    raise AssertionError("the watch ended before the ConfigMap was gone")


@pytest.mark.on_real
async def test_a_list_of_hosts_too_long_for_a_variable_is_read_from_a_file_after_a_restart_too(scene: Scene) -> None:
    script = per_attempt("exit 1", f"{{ {REPORT}; }}; touch $WORKER_HOSTS_FILE 2>/dev/null && exit 1; exit 0")
    rule = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 2}
    await scene.submit(job(LONG_NAME, {"worker": listening(script, 2, 450, **rule)}, cleanPodPolicy="None"))
    await scene.until_phase(LONG_NAME, "Succeed")
    last = f"{LONG_NAME}-worker-1.{scene.namespace}:10449"
    for index in (0, 1):
        said = (await scene.log(f"{LONG_NAME}-worker-{index}")).split("\n")
        # One line break fewer than hosts: the last one has none.
        assert [line.strip() for line in said[:3]] == ["no variable", "899", last]
        assert int(said[3]) == 900 * (len(last) + 1) - 1 > 64 * 1024
    [held] = await environments(scene)
    assert held["immutable"] is True
    assert held["metadata"]["ownerReferences"][0]["name"] == LONG_NAME

    await scene.delete(LONG_NAME)
    await until_deleted(scene, held)


async def test_more_hosts_than_any_file_holds_are_refused_in_words_and_fewer_are_taken(scene: Scene) -> None:
    await scene.submit(job(LONG_NAME, {"worker": listening("exit 0", 10, 1300)}))
    await scene.until(lambda: scene.status(LONG_NAME).get("conditions"), "a condition")
    complaint = scene.status(LONG_NAME)["conditions"][-1]
    assert complaint["type"] == "Invalid"
    assert complaint["message"].startswith("spec.replicaSpecs: the addresses of all replicas take 1,")
    assert complaint["message"].endswith("use fewer replicas, fewer ports or shorter names")
    told = await scene.until(lambda: scene.complaint(LONG_NAME), "an event about it")
    assert told == complaint["message"]
    assert scene.pods == {}

    await scene.edit(LONG_NAME, {"spec": {"replicaSpecs": {"worker": {"replicas": 1}}}})
    await scene.until_phase(LONG_NAME, "Succeed")
