"""Every example runs, does what its header says, and ends as it promises."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pliant.kube.resources import NODES
from pliant.kube.transport.base import STRATEGIC_MERGE_PATCH
from pliant.model.messages import MessageReason
from tests.depth import sample
from tests.examples.folder import FOLDER, Example, examples
from tests.scenarios.jobs import KIND
from tests.scenarios.messages import message_in, resized
from tests.scenarios.scene import PATIENCE, Scene

EXAMPLES = examples()


@pytest.mark.parametrize("example", sample(EXAMPLES, 6, "examples"), ids=lambda each: each.name)
async def test_an_example_ends_as_promised(example: Example, scene: Scene) -> None:
    promise = example.promise
    await scene.submit(example.manifest)
    if people := PEOPLE.get(example.name):
        await people(scene)
    await scene.until(lambda: promise.phase in scene.phases(example.name), f"the end of {example.name}", PATIENCE)
    assert _statuses(scene, promise.phase)[0]["restarts"] == promise.restarts
    if epilogue := EPILOGUES.get(example.name):
        await epilogue(scene)


@pytest.mark.parametrize("example", EXAMPLES, ids=[each.name for each in EXAMPLES])
def test_an_example_says_what_to_watch_and_is_in_the_table(example: Example) -> None:
    assert 2 <= len(example.header) <= 3
    assert any(line.startswith("# Watch: ") for line in example.header)
    assert example.manifest["metadata"]["name"] == example.name
    assert f"({example.path.name})" in (FOLDER / "README.md").read_text()


def test_nobody_is_expected_at_an_example_that_is_gone() -> None:
    assert {*PEOPLE, *EPILOGUES} <= {each.name for each in EXAMPLES}


def _statuses(scene: Scene, phase: str) -> list[dict[str, Any]]:
    """What the job had to say while it was in this phase, also if it is gone by now."""
    return [change.object["status"] for change in scene.history if (change.kind, change.phase) == (KIND, phase)]


async def _scale(scene: Scene) -> None:
    await scene.until_phase("elastic", "Running")
    await scene.edit("elastic", {"spec": {"replicas": 6}}, "scale")
    await scene.until(lambda: scene.status("elastic").get("ready") == "6/6", "six workers")
    assert scene.events("elastic")["Resized"] == resized("worker", 2, 6, "scale")


async def _let_go(scene: Scene) -> None:
    await scene.until_phase("suspend", "Suspended")
    assert not scene.pods
    await scene.edit("suspend", {"spec": {"suspend": False}})
    await scene.until_phase("suspend", "Running")
    await scene.edit("suspend", {"spec": {"suspend": True}})
    await scene.until(lambda: scene.phase("suspend") == "Suspended" and not scene.pods, "a rest")
    await scene.edit("suspend", {"spec": {"suspend": False}})


async def _lose_the_node(scene: Scene) -> None:
    """The node recovers as soon as the member has come back elsewhere."""
    await scene.until_phase("node-fail", "Running")
    lost = scene.pods["node-fail-worker-0"]["spec"]["nodeName"]
    await _say_of_node(scene, lost, "Unknown")
    await scene.until(lambda: scene.attempts("node-fail-worker-0") == ["0", "1"], "another attempt")
    await scene.until_phase("node-fail", "Succeed")
    await _say_of_node(scene, lost, "True")
    ran_on = [
        change.object["spec"]["nodeName"]
        for change in scene.history
        if change.name == "node-fail-worker-0" and "nodeName" in change.object.get("spec", {})
    ]
    assert ran_on[0] == lost != ran_on[-1]


async def _say_of_node(scene: Scene, name: str, ready: str) -> None:
    patch = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
    await scene.client.patch(NODES, None, name, patch, content_type=STRATEGIC_MERGE_PATCH, subresource="status")


async def _went_on(scene: Scene) -> None:
    told = [message_in(status) for status in _statuses(scene, "Running")]
    lost = [each.details[0].parameters for each in told if each.reason == MessageReason.RUNNING_WITH_FAILURES]
    assert ("worker-3", 1) in [(each["replica"], each["code"]) for each in lost]


async def _was_lonely(scene: Scene) -> None:
    assert [scene.attempts(f"restart-pod-worker-{index}") for index in range(3)] == [["0"], ["0", "1"], ["0"]]


async def _was_common(scene: Scene) -> None:
    pods = ("chief-0", "worker-0", "worker-1")
    assert all(scene.attempts(f"restart-all-on-exit-code-{pod}") == ["0", "1"] for pod in pods)


async def _is_gone(scene: Scene) -> None:
    await scene.until(lambda: not scene.job("ttl"), "the end of the end")


People = Callable[[Scene], Awaitable[None]]
PEOPLE: dict[str, People] = {"elastic": _scale, "suspend": _let_go, "node-fail": _lose_the_node}
"""What a reader of the header does while the example runs."""
EPILOGUES: dict[str, People] = {
    "fault-tolerant": _went_on,
    "restart-pod": _was_lonely,
    "restart-all-on-exit-code": _was_common,
    "ttl": _is_gone,
}
"""What else must be true in the end."""
