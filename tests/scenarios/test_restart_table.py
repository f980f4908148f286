"""Six restart policies, three scopes, with and without a limit, after exits of two kinds and lost nodes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from pliant.model.messages import Message
from tests.scenarios import messages
from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, attempt, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import attempts_of_all, expect_all, expect_rows, place_of

LISTED, UNLISTED, NODE = "code-3", "code-4", "node"
RESTARTED_AFTER = {
    "Always": {LISTED, UNLISTED, NODE},
    "OnFailure": {LISTED, UNLISTED},
    "OnNodeFail": {NODE},
    "ExitCode": {LISTED},
    "OnNodeFailWithExitCode": {LISTED, NODE},
    "Never": set(),
    "": set(),
}
REACHED = {"Pod": {"a-1"}, "Replica": {"a-0", "a-1"}, "All": {"a-0", "a-1", "b-0"}}
PLACES = ("a-0", "a-1", "b-0")


@dataclass(frozen=True)
class Row:
    """A job whose member a-1 comes to grief at its first two attempts."""

    policy: str
    scope: str
    limit: int | None
    trouble: str

    @property
    def name(self) -> str:
        limit = "free" if self.limit is None else f"limit{self.limit}"
        return f"{self.policy or 'unset'}-{self.scope}-{limit}-{self.trouble}".lower()

    @property
    def restarts(self) -> int:
        """How often it is restarted."""
        if self.trouble not in RESTARTED_AFTER[self.policy]:
            return 0
        return 2 if self.limit is None else self.limit

    @property
    def phase(self) -> str:
        """Where it ends up."""
        if self.restarts == 2:
            return "Running"
        return "NodeFail" if self.trouble == NODE else "Failed"

    @property
    def charges(self) -> dict[str, int]:
        """What each group has to pay."""
        return {"a": self.restarts, "b": self.restarts if self.scope == "All" else 0}

    def attempts(self, place: str) -> list[str]:
        """The attempts at one place."""
        last = self.restarts if place in REACHED[self.scope] else 0
        return [str(number) for number in range(last + 1)]

    def manifest(self, nodes: PaperNodes, **fields: Any) -> Manifest:
        """The job."""
        rules: dict[str, Any] = {"restartScope": self.scope}
        rules |= {"restartPolicy": self.policy} if self.policy else {}
        rules |= {"restartLimit": self.limit} if self.limit is not None else {}
        groups = {"a": group(FOREVER, 2, **rules), "b": group(FOREVER)}
        placed = {name: nodes.place(each) for name, each in groups.items()}
        return job(self.name, placed, restartingExitCode="137,3", **fields)


def rows_of(trouble: str) -> dict[str, Row]:
    every = product(RESTARTED_AFTER, REACHED, (None, 1))
    rows = [Row(policy, scope, limit, trouble) for policy, scope, limit in every]
    return {row.name: row for row in rows}


def is_victim(pod: Object) -> bool:
    return place_of(pod)[1] == "a-1" and attempt(pod) < 2


@pytest.mark.parametrize("trouble", [LISTED, UNLISTED])
async def test_every_policy_scope_and_limit_after_an_exit(scene: Scene, trouble: str) -> None:
    rows = rows_of(trouble)
    code = int(trouble.rpartition("-")[2])

    def behaviour(pod: Object) -> Behaviour:
        return Ends(code) if is_victim(pod) else Runs()

    async with paper_nodes(scene, 2) as nodes:
        nodes.behaviour = behaviour
        seated = nodes.seat(lambda pod: nodes.names["a" not in place_of(pod)[1]])
        for row in rows.values():
            await scene.submit(row.manifest(nodes, **seated))
        await expect_table(scene, rows, messages.exited("a-1", code))


# tests/engine/test_node_faults.py has the cases, tests/scenarios/test_node_faults.py shows some of them.
@pytest.mark.deep
async def test_every_policy_scope_and_limit_after_a_lost_node(scene: Scene) -> None:
    rows = rows_of(NODE)
    async with paper_nodes(scene, 3) as nodes:
        good, other, lost = nodes.names

        def seat(pod: Object) -> str:
            return lost if is_victim(pod) else good if place_of(pod)[1] == "a-0" else other

        seated = nodes.seat(seat)
        for row in rows.values():
            await scene.submit(row.manifest(nodes, **seated))
        await expect_rows(scene, dict.fromkeys(rows, "3/3"), lambda name: scene.status(name).get("ready", ""))
        await nodes.not_ready(lost)
        await expect_table(scene, rows, messages.lost("a-1", lost, "is not ready (NodeStatusUnknown)"))
        # What is avoided is the node that failed.
        again = [pod for pod in scene.pods.values() if attempt(pod) > 0]
        assert again
        assert all(lost in str(pod["spec"]["affinity"]["nodeAffinity"]) for pod in again)


async def expect_table(scene: Scene, rows: dict[str, Row], blame: Message) -> None:
    """Wait for each row to come to its end, and check on what it did to get there."""

    def seen(name: str) -> tuple[str, Any, Any]:
        status = scene.status(name)
        told = status.get("ready") if scene.phase(name) == "Running" else scene.message(name)
        return scene.phase(name), status.get("RestartCount"), told

    def told(row: Row) -> str | Message:
        is_spent = row.limit == row.restarts == 1
        cause = messages.limit_reached(blame, "a", 1) if is_spent else blame
        return "3/3" if row.phase == "Running" else messages.failed(cause)

    wanted = {name: (row.phase, row.charges, told(row)) for name, row in rows.items()}
    await expect_rows(scene, wanted, seen)
    tried = {f"{name}-{place}": row.attempts(place) for name, row in rows.items() for place in PLACES}
    await expect_all(scene, tried, lambda: attempts_of_all(scene))
    triggers = {name: scene.status(name).get("RestartReplicaName", "") for name in rows}
    assert triggers == {name: "a" if row.restarts else "" for name, row in rows.items()}
