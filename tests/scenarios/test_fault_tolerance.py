"""Groups that may lose members for good: how many, and which."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pliant.model.messages import MessageReason
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.messages import exited
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import expect_rows, place_of

BOUNDS: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 6}


@dataclass(frozen=True)
class Row:
    """A job of four members, some of which end."""

    failed: tuple[int, ...]
    phase: str
    done: tuple[int, ...] = ()
    bounds: dict[str, Any] = field(default_factory=lambda: BOUNDS)
    tolerant: bool = True

    def manifest(self, nodes: PaperNodes, name: str) -> Manifest:
        """The job."""
        worker = nodes.place(group(FOREVER, 4, **self.bounds))
        return job(name, {"worker": worker}, faultTolerant=self.tolerant)

    def behaviour(self, index: int) -> Behaviour:
        """What becomes of a member."""
        return Ends(1) if index in self.failed else Ends(0) if index in self.done else Runs()


ROWS = {
    "one-may-go": Row((3,), "Running"),
    "as-many-as-the-bounds-allow": Row((1, 3), "Running"),
    "not-one-more": Row((1, 2, 3), "Failed"),
    "not-the-first": Row((0,), "Failed"),
    "the-rest-can-complete": Row((1, 3), "Succeed", done=(0, 2)),
    "the-rest-must-complete": Row((3,), "Running", done=(0, 1)),
    "down-to-one-if-nothing-is-said": Row((1, 2, 3), "Running", bounds={"maxReplicas": 6}),
    "nobody-without-bounds": Row((3,), "Failed", bounds={}),
    "nobody-unless-it-is-wanted": Row((3,), "Failed", tolerant=False),
}


async def test_who_may_be_lost(scene: Scene) -> None:
    def behaviour(pod: Object) -> Behaviour:
        name, place = place_of(pod)
        return ROWS[name].behaviour(int(place.rpartition("-")[2]))

    def seen(name: str) -> tuple[str, int, int]:
        counts = (scene.status(name).get("replicaStatuses") or {}).get("worker") or {}
        is_over = scene.phase(name) != "Running"
        return scene.phase(name), 0 if is_over else counts["failed"], 0 if is_over else counts["succeeded"]

    async with paper_nodes(scene) as nodes:
        nodes.behaviour = behaviour
        for name, row in ROWS.items():
            await scene.submit(row.manifest(nodes, name))
        running = {name: row for name, row in ROWS.items() if row.phase == "Running"}
        wanted = {name: (row.phase, 0, 0) for name, row in ROWS.items()}
        wanted |= {name: (row.phase, len(row.failed), len(row.done)) for name, row in running.items()}
        await expect_rows(scene, wanted, seen)
        for name, row in running.items():
            told = scene.message(name)
            assert told.reason == MessageReason.RUNNING_WITH_FAILURES, name
            assert told.details == tuple(exited(f"worker-{index}", 1) for index in row.failed), name


async def test_a_member_that_may_be_restarted_is_not_given_up(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        nodes.behaviour = lambda pod: Ends(1) if place_of(pod)[1] == "worker-2" else Runs()
        rules: dict[str, Any] = {"restartPolicy": "OnFailure", "restartScope": "Pod", "restartLimit": 1, **BOUNDS}
        await scene.submit(job("t", {"worker": nodes.place(group(FOREVER, 3, **rules))}, faultTolerant=True))
        await scene.until(lambda: scene.message("t").reason == MessageReason.RUNNING_WITH_FAILURES, "it given up")
        assert scene.attempts("t-worker-2") == ["0", "1"]
        assert scene.status("t")["RestartCount"] == {"worker": 1}
        assert scene.phases("t")[-1] == "Running"


async def test_a_lost_node_may_be_borne(scene: Scene) -> None:
    async with paper_nodes(scene, 2) as nodes:
        lost, kept = nodes.names
        seated = nodes.seat(lambda pod: lost if place_of(pod)[1] == "worker-2" else kept)
        worker = nodes.place(group(FOREVER, 3, **BOUNDS))
        await scene.submit(job("t", {"worker": worker}, faultTolerant=True, **seated))
        await scene.until_phase("t", "Running")
        await nodes.not_ready(lost)
        await scene.until(lambda: scene.status("t")["replicaStatuses"]["worker"].get("failed") == 1, "it told")
        assert scene.phase("t") == "Running"
        for index in (0, 1):
            nodes.order(f"t-worker-{index}", Ends(0))
        await scene.until_phase("t", "Succeed")


async def test_a_job_that_somebody_else_manages_is_left_alone(scene: Scene) -> None:
    async with paper_nodes(scene) as nodes:
        worker = nodes.place(group(FOREVER))
        await scene.submit(job("theirs", {"worker": worker}, managedBy="kueue.x-k8s.io/multikueue"))
        await scene.submit(job("ours", {"worker": worker}, managedBy="pliant"))
        await scene.until_phase("ours", "Running")
        assert scene.status("theirs") == {}
        assert scene.made("theirs-worker-0") == []
        assert "theirs-worker-0" not in scene.services
        await scene.edit("theirs", {"metadata": {"annotations": {"Preempted": "not ours to do"}}})
        await scene.edit("ours", {"metadata": {"annotations": {"Preempted": "ours to do"}}})
        await scene.until_phase("ours", "Preempted")
        assert scene.status("theirs") == {}
