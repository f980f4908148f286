"""Jobs that fail say who failed first and how."""

from __future__ import annotations

import pytest

from pliant.model.messages import Message, MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_rank
from tests.scenarios.messages import exited, failed, text_of
from tests.scenarios.scene import Scene


def killed(signal: str, code: int) -> Message:
    return message(MessageReason.REPLICA_KILLED, replica="worker-1", code=code, signal=signal)


CAUSES: dict[str, tuple[str, Message]] = {
    "an exit code": ("exit 3", exited("worker-1", 3)),
    "kill -9": ("kill -9 $$", killed("SIGKILL", 137)),
    "a fault": ("kill -SEGV $$", killed("SIGSEGV", 139)),
    "a missing program": ("exec no-such-program 2>/dev/null", exited("worker-1", 127)),
    "last words": ("echo one; echo two >&2; exit 3", exited("worker-1", 3, "two")),
}


@pytest.mark.parametrize(("script", "cause"), CAUSES.values(), ids=CAUSES)
async def test_a_failed_job_names_the_member_and_its_end(scene: Scene, script: str, cause: Message) -> None:
    await scene.submit(job("train", {"worker": group(per_rank(FOREVER, f"sleep 0.1; {script}", FOREVER), 3)}))
    status = await scene.until_phase("train", "Failed")
    assert scene.message("train") == failed(cause)
    assert status["conditions"][-1]["message"] == status["message"]
    assert status["reason"] == "TrainingJobFailed"
    assert status["endTime"]
    assert scene.pods == {}
    assert scene.services == {}
    told = await scene.until(lambda: scene.events("train").get("Failed"), "an event about the failure")
    assert told == failed(cause)


async def test_the_first_cause_is_told_and_not_what_followed_from_it(scene: Scene) -> None:
    worker = group(per_rank("sleep 9; exit 1", "sleep 0.1; exit 42"), 2)
    await scene.submit(job("train", {"worker": worker}))
    await scene.until_phase("train", "Failed")
    assert scene.message("train") == failed(exited("worker-1", 42))


async def test_a_program_that_cannot_be_started_is_named(scene: Scene) -> None:
    await scene.submit(job("train", {"worker": with_command(group(""), "no-such-program")}))
    await scene.until_phase("train", "Failed")
    [cause] = scene.message("train").details
    assert "no-such-program" in text_of(cause)


async def test_a_failed_init_container_fails_the_job(scene: Scene) -> None:
    worker = group("exit 0")
    first = {"name": "prepare", "image": "any", "command": ["sh", "-c", "exit 9"]}
    worker["template"]["spec"]["initContainers"] = [first]
    await scene.submit(job("train", {"worker": worker}))
    await scene.until_phase("train", "Failed")
    assert scene.message("train") == failed(exited("worker-0", 9))


async def test_pods_of_a_failed_job_can_be_kept(scene: Scene) -> None:
    worker = group(per_rank(FOREVER, "echo alas; exit 1"), 2)
    await scene.submit(job("train", {"worker": worker}, cleanPodPolicy="None"))
    await scene.until_phase("train", "Failed")
    assert await scene.log("train-worker-1") == "alas\n"
    assert len(scene.services) == 2


def with_command(each: Manifest, *command: str) -> Manifest:
    each["template"]["spec"]["containers"][0]["command"] = list(command)
    return each
