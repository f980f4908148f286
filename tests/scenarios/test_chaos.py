"""Machines that are killed, paused or lose a GPU under jobs with real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pliant.model.messages import MessageReason
from tests.depth import sample
from tests.node.running import eventually
from tests.scenarios import messages
from tests.scenarios.cluster import IMPATIENT, Site, an_ordinary_user, cluster
from tests.scenarios.host import descendants
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.scene import Scene

RULES: dict[str, Any] = {"restartPolicy": "OnNodeFail", "restartScope": "Pod", "restartLimit": 3}
GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A cluster of one's own, for its nodes are going to fail."""
    with an_ordinary_user() as user, cluster(user, *IMPATIENT, "--nodes=3", "--node-gpu=2") as started:
        yield started


@pytest.fixture
def strike(site: Site) -> Iterator[Any]:
    """Strikes nodes as people do; all are well again at the end."""

    async def struck(*words: str) -> None:
        ended = await asyncio.to_thread(site.user.run, "node", *words)
        assert ended.code == 0, ended.err

    yield struck
    for number in range(3):
        site.user.run("node", "recover", f"node-{number}")


def with_gpu(of: Manifest) -> Manifest:
    """The same group, each member with a GPU."""
    of["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    return of


def node_of(scene: Scene, pod: str) -> str:
    return str(scene.pods[pod]["spec"]["nodeName"])


async def is_told(scene: Scene, restarts: int, ready: str = "2/2") -> None:
    """Wait until all members run again, after so many restarts."""
    await scene.until(
        lambda: (
            scene.phase("t") == "Running"
            and scene.status("t").get("ready") == ready
            and scene.status("t")["RestartCount"] == {"worker": restarts}
        ),
        f"{ready} after {restarts} restarts",
    )


async def at_work(site: Site, number: int) -> None:
    """Wait until so many members are at work on this machine."""
    assert site.process is not None
    cluster_itself = site.process

    def commands() -> list[str]:
        return [command_line(process) for process in descendants(cluster_itself)]

    await eventually(lambda: commands().count("sleep 600") == number, what=f"{number} at work", within=10)


def command_line(process: int) -> str:
    """What a process runs; nothing when it has just ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("how", sample(("kill", "pause"), 1, "lost nodes"))
async def test_members_leave_a_lost_node_and_no_two_ever_do_the_same_work(
    scene: Scene, site: Site, strike: Any, how: str
) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2, **RULES)}))
    await scene.until(lambda: scene.status("t").get("ready") == "2/2", "two members run")
    lost = node_of(scene, "t-worker-1")
    await strike(how, lost)
    await is_told(scene, 1)
    assert node_of(scene, "t-worker-1") != lost
    cause = messages.lost("worker-1", lost, "is not ready (NodeStatusUnknown)")
    assert cause in scene.events("t")["Restarting"].details
    await strike("recover", lost)
    await at_work(site, 2)
    await is_told(scene, 1)
    scene.excuse("t-worker-1")


@pytest.mark.deep  # test_node_faults.py shows the same with nodes on paper
async def test_a_node_that_is_back_in_time_costs_nothing(scene: Scene, site: Site, strike: Any) -> None:
    await scene.submit(job("t", {"worker": group(FOREVER, 2, **RULES)}))
    await scene.until(lambda: scene.status("t").get("ready") == "2/2", "two members run")
    before = {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}
    node = node_of(scene, "t-worker-0")
    await strike("pause", node)
    await strike("recover", node)
    await asyncio.sleep(4)  # longer than a node may be lost
    assert {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()} == before
    await is_told(scene, 0)
    await at_work(site, 2)


async def test_a_member_leaves_a_bad_gpu_for_a_good_one(scene: Scene, strike: Any) -> None:
    await scene.submit(job("t", {"worker": with_gpu(group(FOREVER, 2, **RULES))}))
    await scene.until(lambda: scene.status("t").get("ready") == "2/2", "two members run")
    bad = node_of(scene, "t-worker-1")
    await strike("gpu-fault", bad)
    await is_told(scene, 1)
    assert node_of(scene, "t-worker-1") != bad
    [cause] = scene.events("t")["Restarting"].details
    assert cause.reason == MessageReason.REPLICA_LOST
    assert "GPUUnhealthy: GPU 0: Xid 79" in messages.text_of(cause, "fault")
    await strike("gpu-fault", bad, "--recover")


async def test_a_bad_gpu_costs_one_restart_and_its_node_goes_on_serving_the_good_one(scene: Scene, strike: Any) -> None:
    visible = "echo $CUDA_VISIBLE_DEVICES; exec sleep 600"
    await scene.submit(job("t", {"worker": with_gpu(group(visible, 5, **RULES))}))
    await scene.until(lambda: scene.status("t").get("ready") == "5/5", "five members run")
    before = {name: pod["metadata"]["uid"] for name, pod in scene.pods.items()}
    await strike("gpu-fault", "node-0")
    await is_told(scene, 1, "5/5")
    await scene.submit(job("later", {"worker": with_gpu(group(visible, 1, **RULES))}))
    await asyncio.sleep(5)  # longer than the grace period
    assert (scene.phase("t"), scene.status("t")["RestartCount"]) == ("Running", {"worker": 1})
    moved = [name for name, uid in before.items() if scene.pods[name]["metadata"]["uid"] != uid]
    assert len(moved) == 1
    on_node = [pod for pod in scene.pods.values() if pod["spec"].get("nodeName") == "node-0"]
    assert [await scene.log(pod["metadata"]["name"]) for pod in on_node] == ["1\n"]
    assert scene.phase("later") == "Pending"
    await strike("gpu-fault", "node-0", "--recover")
    await scene.until_phase("later", "Running")
    assert not scene.status("later").get("RestartCount", {}).get("worker")


# The next test shows the same fault; tests/scenarios/test_node_faults.py shows where new pods go.
@pytest.mark.deep
async def test_a_pod_that_comes_to_a_node_with_a_bad_gpu_gets_a_good_one_and_stays(scene: Scene, strike: Any) -> None:
    await strike("gpu-fault", "node-0")
    alone = with_gpu(group("echo $CUDA_VISIBLE_DEVICES; exec sleep 600", **RULES))
    alone["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-0"}
    await asyncio.sleep(4)  # the fault is older than the grace period
    await scene.submit(job("t", {"worker": alone}))
    await scene.until_phase("t", "Running")
    await asyncio.sleep(5)
    assert scene.phases("t")[-1] == "Running"
    assert scene.attempts("t-worker-0") == ["0"]
    assert await scene.log("t-worker-0") == "1\n"
    await strike("gpu-fault", "node-0", "--recover")


async def test_jobs_that_want_more_gpus_than_there_are_wait_and_say_so(scene: Scene) -> None:
    visible = "echo $CUDA_VISIBLE_DEVICES; exec sleep 600"
    await scene.submit(job("first", {"worker": with_gpu(group(visible, 5))}))
    await scene.submit(job("second", {"worker": with_gpu(group(visible, 1))}))
    await scene.submit(job("third", {"worker": with_gpu(group("exit 0", 1))}))
    await scene.until_phase("first", "Running")
    await scene.until_phase("second", "Running")
    await scene.until(
        lambda: f"3 Insufficient {GPU}" in messages.start_problems(scene.message("third")).get("worker-0", ""),
        "the third waits",
    )
    await scene.delete("second")
    await scene.until_phase("third", "Succeed")
