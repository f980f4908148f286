"""Which members come back after a failure, how often, and after which wait."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from pliant.kube.codec import WatchEventType
from pliant.model.messages import MessageReason, message
from tests.scenarios.jobs import FOREVER, Manifest, group, job, per_attempt, per_rank
from tests.scenarios.laws import in_order
from tests.scenarios.messages import exited, failed, limit_reached
from tests.scenarios.scene import Scene

BRIEF = "sleep 0.1; "
REACH: dict[str, tuple[dict[str, list[str]], dict[str, int]]] = {
    "Pod": ({"a-0": ["0"], "a-1": ["0", "1"], "b-0": ["0"]}, {"a": 1, "b": 0}),
    "Replica": ({"a-0": ["0", "1"], "a-1": ["0", "1"], "b-0": ["0"]}, {"a": 1, "b": 0}),
    "All": ({"a-0": ["0", "1"], "a-1": ["0", "1"], "b-0": ["0", "1"]}, {"a": 1, "b": 1}),
}
"""What a restart of each scope re-makes, and what it costs each group."""


def two_groups(scope: str, script: str) -> dict[str, Manifest]:
    """A second member of the first group that may fail, and others that never end."""
    rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": scope, "restartLimit": 3}
    return {
        "a": group(per_rank(FOREVER, script), 2, completePolicy="Any", **rules),
        "b": group(FOREVER, completePolicy="None", **rules),
    }


@pytest.mark.parametrize(("scope", "expected"), REACH.items(), ids=REACH)
async def test_a_restart_remakes_what_its_scope_says(
    scene: Scene, scope: str, expected: tuple[dict[str, list[str]], dict[str, int]]
) -> None:
    attempts, charged = expected
    script = per_attempt(BRIEF + "exit 3", "echo attempt $TRAININGJOB_REPLICA_RESTARTCOUNT; sleep 0.3")
    await scene.submit(job("t", two_groups(scope, script)))
    status = await scene.until_phase("t", "Succeed", "Failed")
    assert status["phase"] == "Succeed", status["message"]
    assert {place: scene.attempts(f"t-{place}") for place in attempts} == attempts
    assert status["RestartCount"] == charged
    assert status["RestartReplicaName"] == "a"
    assert status["restarts"] == 1
    assert "Restarting" in scene.phases("t")
    assert scene.events("t")["Restarting"] == message(
        MessageReason.RESTARTING, [exited("a-1", 3)], group="a", used=1, scope=scope, limit=3
    )
    for place, tried in attempts.items():
        if tried == ["0"]:
            [only] = scene.made(f"t-{place}")
            assert only["metadata"]["uid"] in uids_while_restarted(scene)


def uids_while_restarted(scene: Scene) -> set[str]:
    """Pods that were still there when the new attempt came."""
    history = [change for change in in_order(scene.history) if change.kind == "Pod"]
    born = next(index for index, change in enumerate(history) if is_second(change.object))
    gone = {change.uid for change in history[:born] if change.type is WatchEventType.DELETED}
    return {change.uid for change in history[:born]} - gone


def is_second(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"]["RestartCount"] == "1")


async def test_a_member_that_keeps_failing_comes_back_later_each_time_until_the_budget_is_spent(scene: Scene) -> None:
    worker = group("exit 3", restartPolicy="Always", restartScope="Pod", restartLimit=3)
    await scene.submit(job("t", {"worker": worker}))
    status = await scene.until_phase("t", "Failed")
    assert scene.message("t") == failed(limit_reached(exited("worker-0", 3), "worker", 3))
    assert status["RestartCount"] == {"worker": 3}
    assert scene.attempts("t-worker-0") == ["0", "1", "2", "3"]
    came = [change.at for change in scene.history if change.kind == "Pod" and change.type is WatchEventType.ADDED]
    first, second, third = (after - before for before, after in pairwise(came))
    # The waits are 0, 1 and 2 seconds; what the test hears of comes a moment later.
    assert first < second
    assert second > 0.9
    assert third > 1.9


@pytest.mark.parametrize("scope", ["Replica", "All"])
async def test_old_and_new_members_never_meet(scene: Scene, scope: str) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.05; done"
    rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": scope, "completePolicy": "Any"}
    worker = group(per_rank(stubborn, per_attempt(BRIEF + "exit 3", BRIEF)), 2, **rules)
    await scene.submit(job("t", {"worker": worker}))
    await scene.until_phase("t", "Succeed")
    pods = [change for change in in_order(scene.history) if change.kind == "Pod"]
    news = next(index for index, change in enumerate(pods) if is_second(change.object))
    gone = {change.uid for change in pods[:news] if change.type is WatchEventType.DELETED}
    old = {change.uid for change in pods if not is_second(change.object)}
    assert gone == old


async def test_two_failures_at_once_are_both_mended(scene: Scene) -> None:
    rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 2}
    await scene.submit(job("t", {"worker": group(per_attempt("exit 1", "exit 0"), 2, **rules)}))
    status = await scene.until_phase("t", "Succeed", "Failed")
    assert status["phase"] == "Succeed", status["message"]
    assert status["RestartCount"] == {"worker": 2}


async def test_a_wide_restart_spends_from_every_budget(scene: Scene) -> None:
    generous: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "All"}
    groups = {"a": group(BRIEF + "exit 3", restartLimit=5, **generous), "b": group(FOREVER, restartLimit=1, **generous)}
    await scene.submit(job("t", groups))
    await scene.until(lambda: scene.attempts("t-b-0") == ["0", "1", "2"], "a second restart")
    assert scene.status("t")["RestartCount"] == {"a": 2, "b": 2}


EXITS: dict[str, tuple[str, str, str]] = {
    "a listed code restarts": ("ExitCode", "exit 3", "Succeed"),
    "another code fails": ("ExitCode", "exit 4", "Failed"),
    "kill -9 counts as 137": ("ExitCode", "kill -9 $$", "Succeed"),
    "a listed code restarts where lost nodes do as well": ("OnNodeFailWithExitCode", "exit 3", "Succeed"),
    "another code fails where lost nodes restart": ("OnNodeFailWithExitCode", "exit 4", "Failed"),
    "only a lost node restarts": ("OnNodeFail", "exit 3", "Failed"),
    "nothing restarts": ("Never", "exit 3", "Failed"),
    "any failure restarts": ("OnFailure", "exit 4", "Succeed"),
    "any failure restarts, always": ("Always", "kill -9 $$", "Succeed"),
}


@pytest.mark.parametrize(("policy", "end", "phase"), EXITS.values(), ids=EXITS)
async def test_a_policy_chooses_which_exits_restart(scene: Scene, policy: str, end: str, phase: str) -> None:
    worker = group(per_attempt(end, "exit 0"), restartPolicy=policy, restartScope="Pod", restartLimit=1)
    await scene.submit(job("t", {"worker": worker}, restartingExitCode="137,3"))
    status = await scene.until_phase("t", "Succeed", "Failed")
    assert status["phase"] == phase, status["message"]
    assert scene.attempts("t-worker-0") == (["0", "1"] if phase == "Succeed" else ["0"])


async def test_a_limit_of_nothing_is_a_limit(scene: Scene) -> None:
    await scene.submit(job("t", {"worker": group("exit 3", restartPolicy="OnFailure", restartLimit=0)}))
    status = await scene.until_phase("t", "Failed")
    assert scene.message("t") == failed(exited("worker-0", 3))
    assert status["RestartCount"] == {"worker": 0}


async def test_a_pod_deleted_by_hand_comes_back_at_no_charge(scene: Scene) -> None:
    rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 0}
    await scene.submit(job("t", {"worker": group(FOREVER, 2, **rules)}))
    await scene.until_phase("t", "Running")
    await scene.delete_pod("t-worker-1")
    await scene.until(lambda: len(scene.made("t-worker-1")) == 2, "the pod back")
    await scene.until(lambda: scene.pods["t-worker-1"]["status"]["phase"] == "Running", "the pod running again")
    # An operator that sees it only when it is gone takes it for a member that it has not made yet.
    assert scene.attempts("t-worker-1") in (["0", "1"], ["0", "0"])
    assert len(scene.made("t-worker-0")) == 1
    assert scene.status("t")["RestartCount"] == {"worker": 0}
    assert scene.phases("t")[-1] == "Running"
    assert "Restarting" not in scene.phases("t")


@pytest.mark.on_real
async def test_a_program_that_cannot_start_is_given_up_after_three_times_not_after_all_restarts(scene: Scene) -> None:
    missing = "echo \"ModuleNotFoundError: No module named 'torch'\"; exit 1"
    rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartLimit": 9}
    sizes = {"Pod": 1, "Replica": 2, "All": 2}
    for scope, size in sizes.items():
        await scene.submit(job(scope.lower(), {"worker": group(missing, size, restartScope=scope, **rules)}))
    for scope, size in sizes.items():
        status = await scene.until_phase(scope.lower(), "Failed")
        causes = scene.message(scope.lower()).details
        assert {cause.reason for cause in causes} == {MessageReason.PROGRAM_CANNOT_START}
        assert status["RestartCount"] == {"worker": 2}
        assert {len(scene.attempts(f"{scope.lower()}-worker-{index}")) for index in range(size)} == {3}
