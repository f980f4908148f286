"""An operator that is killed at any moment and comes back: nothing is forgotten and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.cluster import OperatorProcess, Site, operator, without_operator
from tests.scenarios.conftest import OpenScene
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_attempt, per_rank
from tests.scenarios.scene import Scene

STUBBORN = "trap '' TERM; while :; do sleep 0.05; done"
AGAIN: dict[str, Any] = {"restartPolicy": "OnFailure", "restartLimit": 2}
STORY: list[Manifest] = [
    job("fine", {"worker": group("sleep 0.4", 2), "ps": group(FOREVER, completePolicy="None")}),
    job("sad", {"worker": group(per_rank("sleep 90", "sleep 0.4; exit 3"), 2)}),
    job("pod", {"worker": group(per_attempt("sleep 0.2; exit 1", "exit 0"), restartScope="Pod", **AGAIN)}),
    job(
        "wide",
        {
            "worker": group(per_rank("sleep 0.5", per_attempt("exit 9", "exit 0")), 2, restartScope="All", **AGAIN),
            "chief": group("sleep 0.4", restartScope="All", **AGAIN),
        },
    ),
]
NAMES = [each["metadata"]["name"] for each in STORY]


@pytest.fixture(scope="module")
def site(ground: str) -> Iterator[Site]:
    """A cluster without an operator."""
    with without_operator(ground) as started:
        yield started


@pytest.fixture
def worker(site: Site) -> Iterator[OperatorProcess]:
    """An operator at work."""
    with operator(site) as process:
        process.start()
        yield process


async def begin(scene: Scene) -> None:
    for each in STORY:
        await scene.submit(each)


def is_over(scene: Scene) -> bool:
    return all(scene.phase(name) in ("Succeed", "Failed") for name in NAMES)


def outcome(scene: Scene) -> dict[str, Any]:
    """All that must not depend on how often the operator died."""
    told = ("phase", "RestartCount", "RestartReplicaName", "restarts", "replicaStatuses")
    ends = {name: [scene.message(name), *(scene.status(name).get(word) for word in told)] for name in NAMES}
    # Servers nobody waits for may be left out: the workers can be done before the operator is back to make them.
    made = {change.name for change in scene.history if change.kind == "Pod" and "-ps-" not in change.name}
    # The first attempt at a place may be skipped: a wide restart can be decided before everybody was there.
    last = {name: scene.attempts(name)[-1] for name in made}
    return {**ends, "left": [*scene.pods, *scene.services], "made": last}


@pytest.mark.deep  # test_sampled_kills.py kills operators by default
async def test_an_operator_killed_again_and_again_comes_to_the_same_end(
    open_scene: OpenScene, worker: OperatorProcess
) -> None:
    undisturbed = await open_scene()
    await begin(undisturbed)
    await undisturbed.until(lambda: is_over(undisturbed), "every job over")

    for stride in (3, 8):
        scene = await open_scene()
        await begin(scene)
        while not is_over(scene):
            enough = len(scene.history) + stride
            await scene.until(lambda: len(scene.history) >= enough or is_over(scene), "a few changes more")  # noqa: B023
            worker.kill()
            worker.start()
        assert outcome(scene) == outcome(undisturbed)


async def test_an_operator_that_comes_back_to_a_running_job_writes_nothing(
    open_scene: OpenScene, worker: OperatorProcess
) -> None:
    scene, elsewhere = await open_scene(), await open_scene()
    await scene.submit(job("t", {"worker": group(FOREVER, 3)}))
    await scene.until(lambda: scene.status("t").get("ready") == "3/3", "three of three ready")
    before = len(scene.history)
    worker.kill()
    worker.start()
    await elsewhere.submit(job("later", {"worker": group("exit 0")}))
    await elsewhere.until_phase("later", "Succeed")
    assert [str(change) for change in scene.history[before:]] == []


async def test_a_restart_under_way_is_finished_and_not_charged_again(scene: Scene, worker: OperatorProcess) -> None:
    script = per_rank(STUBBORN, per_attempt("sleep 0.1; exit 3", FOREVER))
    await scene.submit(job("t", {"worker": group(script, 2, restartScope="Replica", **AGAIN)}))
    await scene.until_phase("t", "Restarting")
    worker.kill()
    worker.start()
    await scene.until(lambda: scene.phases("t")[-2:] == ["Restarting", "Running"], "the job running again")
    assert scene.status("t")["RestartCount"] == {"worker": 1}
    assert scene.attempts("t-worker-0") == scene.attempts("t-worker-1") == ["0", "1"]


async def test_what_an_operator_left_half_cleared_is_cleared(scene: Scene, worker: OperatorProcess) -> None:
    await scene.submit(job("t", {"worker": group(per_rank(STUBBORN, "sleep 0.1; exit 3"), 3)}))
    await scene.until_phase("t", "Terminating")
    worker.kill()
    worker.start()
    await scene.until_phase("t", "Failed")
    assert scene.pods == {}
    assert scene.services == {}


async def test_completion_beats_failure_when_both_are_seen_at_once(
    scene: Scene, worker: OperatorProcess, tmp_path: Path
) -> None:
    signal = tmp_path / "operator-is-killed"
    wait = f"until [ -e {signal} ]; do sleep 0.05; done"
    groups = {"good": group(wait), "bad": group(f"{wait}; exit 3")}
    await scene.submit(job("t", groups, completePolicy="Any"))
    await scene.until(lambda: len(scene.pods) == 2, "both pods made")
    worker.kill()
    signal.touch()
    phases = {"t-good-0": "Succeeded", "t-bad-0": "Failed"}
    await scene.until(
        lambda: {name: pod["status"]["phase"] for name, pod in scene.pods.items()} == phases, "both members ended"
    )
    worker.start()
    status = await scene.until_phase("t", "Succeed", "Failed")
    assert status["phase"] == "Succeed", status["message"]


async def test_a_job_deleted_and_made_again_without_an_operator_is_known_as_new(
    scene: Scene, worker: OperatorProcess
) -> None:
    await scene.submit(job("t", {"worker": group(STUBBORN, 2)}))
    await scene.until_phase("t", "Running")
    worker.kill()
    await scene.delete("t")
    await scene.submit(job("t", {"worker": group("exit 0", 2)}))
    worker.start()
    await scene.until_phase("t", "Succeed")


async def test_two_operators_at_once_do_not_get_in_each_others_way(
    scene: Scene, site: Site, worker: OperatorProcess
) -> None:
    for name in ("chief-0", "worker-0", "worker-1"):
        scene.excuse(f"wide-{name}")  # who is behind may fill a place anew before it hears of the restart
    with operator(site, "second") as rival:
        rival.start()
        await begin(scene)
        await scene.until(lambda: is_over(scene), "every job over")
    ends = {name: (scene.phase(name), scene.status(name)["RestartCount"]) for name in NAMES}
    assert ends == {
        "fine": ("Succeed", {"worker": 0, "ps": 0}),
        "sad": ("Failed", {"worker": 0}),
        "pod": ("Succeed", {"worker": 1}),
        "wide": ("Succeed", {"worker": 1, "chief": 1}),
    }
