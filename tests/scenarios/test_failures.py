"""Jobs that fail say who failed first and how."""

from __future__ import annotations

import pytest

from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_rank
from tests.scenarios.scene import Scene

CAUSES: dict[str, tuple[str, str]] = {
    "an exit code": ("exit 3", "worker-1 exited with code 3"),
    "kill -9": ("kill -9 $$", "worker-1 was killed by SIGKILL (exit code 137)"),
    "a fault": ("kill -SEGV $$", "worker-1 was killed by SIGSEGV (exit code 139)"),
    "a missing program": ("exec no-such-program 2>/dev/null", "worker-1 exited with code 127"),
    "last words": ("echo one; echo two >&2; exit 3", "worker-1 exited with code 3: two"),
}


@pytest.mark.parametrize(("script", "cause"), CAUSES.values(), ids=CAUSES)
async def test_a_failed_job_names_the_member_and_its_end(scene: Scene, script: str, cause: str) -> None:
    await scene.submit(job("train", {"worker": group(per_rank(FOREVER, f"sleep 0.1; {script}", FOREVER), 3)}))
    status = await scene.until_phase("train", "Failed")
    assert status["message"] == cause
    assert status["conditions"][-1]["message"] == cause
    assert status["reason"] == "TrainingJobFailed"
    assert status["endTime"]
    assert scene.pods == {}
    assert scene.services == {}
    told = await scene.until(lambda: scene.events("train").get("Failed"), "an event about the failure")
    assert told == cause


async def test_the_first_cause_is_told_and_not_what_followed_from_it(scene: Scene) -> None:
    worker = group(per_rank("sleep 9; exit 1", "sleep 0.1; exit 42"), 2)
    await scene.submit(job("train", {"worker": worker}))
    status = await scene.until_phase("train", "Failed")
    assert status["message"] == "worker-1 exited with code 42"


async def test_a_program_that_cannot_be_started_is_named(scene: Scene) -> None:
    await scene.submit(job("train", {"worker": with_command(group(""), "no-such-program")}))
    status = await scene.until_phase("train", "Failed")
    assert "no-such-program" in status["message"]


async def test_a_failed_init_container_fails_the_job(scene: Scene) -> None:
    worker = group("exit 0")
    first = {"name": "prepare", "image": "any", "command": ["sh", "-c", "exit 9"]}
    worker["template"]["spec"]["initContainers"] = [first]
    await scene.submit(job("train", {"worker": worker}))
    status = await scene.until_phase("train", "Failed")
    assert status["message"] == "worker-0 exited with code 9"


async def test_pods_of_a_failed_job_can_be_kept(scene: Scene) -> None:
    worker = group(per_rank(FOREVER, "echo alas; exit 1"), 2)
    await scene.submit(job("train", {"worker": worker}, cleanPodPolicy="None"))
    await scene.until_phase("train", "Failed")
    assert await scene.log("train-worker-1") == "alas\n"
    assert len(scene.services) == 2


def with_command(each: Manifest, *command: str) -> Manifest:
    each["template"]["spec"]["containers"][0]["command"] = list(command)
    return each
