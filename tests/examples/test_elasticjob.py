"""ElasticJobs that say nothing of numbers and sizes, run by the master of our own to their end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pliant.kube.client import KubeClient
from pliant.kube.resources import CONFIG_MAPS, PODS
from tests.scenarios.cluster import Site
from tests.scenarios.elastic import ElasticScene, master
from tests.scenarios.scene import fresh_name, played

FOLDER = Path(__file__).parents[2] / "examples" / "elasticjob"
QUICK = {"settle_time": "2", "growth_timeout": "3", "service_settle_time": "0.5", "service_throughput_window": "0.5"}
"""What makes a master hurry."""
SLEEPER = ["sh", "-c", "trap exit TERM; while :; do sleep 0.2; done"]


class MasteredScene(ElasticScene):
    """A namespace with ElasticJobs, on nodes that run them."""

    async def submit_example(self, name: str, *changes: tuple[str, str], **env: str) -> None:
        """Create an example and its program, made quick; changes are of its text."""
        text = (FOLDER / f"{name}.yaml").read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        job, program = yaml.safe_load_all(text)
        job["metadata"]["annotations"] = {f"pliant.master/{key}": value for key, value in QUICK.items()}
        container = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
        said = {each["name"]: each["value"] for each in container.get("env", [])}
        container["env"] = [{"name": key, "value": value} for key, value in {**said, **env}.items()]
        await self.client.create(CONFIG_MAPS, self.namespace, program)
        await self.submit(job)

    def reasons(self) -> list[str]:
        """What every plan so far was for, in order, also of those that are gone."""
        said = {
            change.name: str(change.object["spec"].get("reason"))
            for change in self.history
            if change.kind == "ScalePlan" and "spec" in change.object
        }
        return list(said.values())

    def stages(self) -> list[str]:
        """At which stage every plan was made, in order."""
        said = {
            change.name: str(change.object["metadata"].get("annotations", {}).get("pliant/sizing-stage"))
            for change in self.history
            if change.kind == "ScalePlan"
        }
        return list(said.values())

    def running(self, job: str) -> list[str]:
        """The workers that run, by id."""
        return [
            id_ for id_ in self.members(job) if self.pods[f"{job}-edljob-worker-{id_}"]["status"]["phase"] == "Running"
        ]


def _sizes_after_growth(reasons: list[str]) -> list[int]:
    """The numbers of workers that were asked for, once one of them is smaller than the one before."""
    sizes = [int(found[1]) for reason in reasons if (found := re.match(r"from \d+ to (\d+) workers: ", reason))]
    return sizes if sizes != sorted(sizes) else []


@pytest.fixture
async def stage(client: KubeClient) -> AsyncIterator[MasteredScene]:
    async with played(MasteredScene(client, fresh_name())) as scene:
        yield scene


@pytest.mark.parametrize("name", ["quickstart", "synthetic", "oom"])
def test_the_program_in_an_example_is_the_one_beside_it(name: str) -> None:
    _, program = yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())
    ((file, text),) = program["data"].items()
    assert text == (FOLDER / file).read_text()


@pytest.mark.deep  # what its master decides, tests/master shows on virtual time
@pytest.mark.timeout(300)
async def test_a_job_from_nothing_grows_learns_and_outlives_its_master(stage: MasteredScene) -> None:
    await stage.submit_example("quickstart", ("400, 30, 12", "400, 12, 12"))
    await stage.until(lambda: len(stage.reasons()) >= 2, "growth")
    before = await stage.until(lambda: stage.members("quickstart"), "workers")
    first = await stage.until_master("quickstart")
    await stage.delete_pod(master("quickstart"))
    await stage.until_master("quickstart", other_than=first)
    await stage.until(lambda: stage.phase("quickstart") == "Succeeded", "the end", within=200)
    assert stage.stages()[:2] == ["create", "worker-initial"]
    assert not [reason for reason in stage.reasons() if "lost" in reason]
    assert [len(stage.made(f"quickstart-edljob-worker-{id_}")) for id_ in before] == [1] * len(before)


async def test_workers_that_run_out_of_memory_come_back_with_more(stage: MasteredScene) -> None:
    await stage.submit_example("oom", NEED="60")
    await stage.until_phase("oom", "Succeeded")
    assert "worker-0 ran out of memory: from 64 MiB to 128 MiB" in stage.reasons()[1]


@pytest.mark.deep  # what its master decides, tests/master shows on virtual time
async def test_the_number_of_workers_comes_within_one_of_the_best(stage: MasteredScene) -> None:
    await stage.submit_example("synthetic", CURVE="1,0.3,0.03", SPEED="400")  # three are best
    sizes = await stage.until(lambda: _sizes_after_growth(stage.reasons()), "a way back")
    assert abs(sizes[-1] - 3) <= 1
    await stage.delete("synthetic")


def sleepers(name: str, command: list[str], **worker: Any) -> dict[str, Any]:
    """A job whose workers know nothing of their master."""
    container: dict[str, Any] = {"name": "main", "image": "none", "command": command}
    container["resources"] = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
    return {
        "apiVersion": MasteredScene.jobs.api_version,
        "kind": MasteredScene.jobs.kind,
        "metadata": {"name": name},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {"worker": {**worker, "template": template}},
        },
    }


async def test_lost_workers_come_back_by_one_plan_at_once(stage: MasteredScene) -> None:
    await stage.submit(sleepers("lossy", SLEEPER, replicas=8))
    await stage.until(lambda: len(stage.running("lossy")) == 8, "eight workers")
    names = [f"lossy-edljob-worker-{number}" for number in range(1, 8)]
    await asyncio.gather(*(stage.client.delete(PODS, stage.namespace, name, grace_period_seconds=0) for name in names))
    await stage.until(lambda: sorted(map(int, stage.running("lossy"))) == [0, *range(8, 15)], "seven newcomers")
    assert len(stage.reasons()) == 2
    await stage.delete("lossy")


async def test_a_job_that_fails_says_why(stage: MasteredScene) -> None:
    await stage.submit(sleepers("hopeless", ["sh", "-c", "exit 3"], replicas=2, restartCount=1))
    await stage.until_phase("hopeless", "Failed")
    told = [change.object for change in stage.history if change.name == master("hopeless")][-1]
    words = told["status"]["containerStatuses"][0]["state"]["terminated"]
    assert words["exitCode"] == 1
    assert "failed with exit code 3 after 1 restart" in words["message"]


LEARN_UNTIL_TOLD = """
import os, time
from pliant import elastic
job = elastic.join()
for shard in job.shards("train", size=3, shard_size=1):
    while shard.start == 1 and not os.path.exists("/shared/go"):
        time.sleep(0.05)  # until the stranger has tried
    print("learned", shard.start, flush=True)
"""
ATTACK = """
import json, sys, urllib.request, urllib.error
for path, body in (
    ("", {"name": "train", "size": 3, "shard_size": 1}),
    ("/train/next", {"member": "worker-0"}),
    ("/train/report", {"member": "worker-0", "done": [0, 1, 2]}),
):
    try:
        urllib.request.urlopen(sys.argv[1] + path, json.dumps(body).encode(), timeout=10)
        print(200, flush=True)
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode(), flush=True)
"""


@pytest.mark.deep  # what a master answers, tests/master/test_keys.py shows
async def test_pods_of_another_namespace_cannot_end_a_job(stage: MasteredScene, client: KubeClient, site: Site) -> None:
    shared = site.user.home / fresh_name()
    shared.mkdir()
    job = sleepers("victim", ["python", "-c", LEARN_UNTIL_TOLD], replicas=1)
    pod = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    pod["volumes"] = [{"name": "shared", "hostPath": {"path": str(shared)}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    await stage.submit(job)
    await stage.until(lambda: stage.running("victim"), "its worker")
    async with played(MasteredScene(client, fresh_name())) as elsewhere:
        url = f"http://elasticjob-victim-dlrover-master.{stage.namespace}:50001/v1/datasets"
        container = {"name": "main", "image": "none", "command": ["python", "-c", ATTACK, url]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}}
        spec = {"restartPolicy": "Never", "containers": [container]}
        await client.create(PODS, elsewhere.namespace, {**body, "spec": spec})
        await elsewhere.until(
            lambda: elsewhere.pods.get("stranger", {}).get("status", {}).get("phase") == "Succeeded", "the attack"
        )
        said = (await elsewhere.log("stranger")).splitlines()
    assert [line.split(" ", 1)[0] for line in said] == ["401", "401", "401"]
    assert all("$PLIANT_MASTER_KEY" in line for line in said)
    (shared / "go").touch()
    await stage.until_phase("victim", "Succeeded")
