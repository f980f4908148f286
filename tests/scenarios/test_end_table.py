"""Four policies of a group and two of the job, for completion and for failure, whoever ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.scenarios.jobs import FOREVER, Manifest, group, job
from tests.scenarios.laws import Object
from tests.scenarios.nodes import Behaviour, Ends, PaperNodes, Runs, paper_nodes
from tests.scenarios.scene import Scene
from tests.scenarios.table import expect_rows, place_of

SPEAKS: dict[str, Callable[[frozenset[int]], bool]] = {
    "Any": lambda ended: bool(ended),
    "Rank0": lambda ended: 0 in ended,
    "All": lambda ended: ended == {0, 1},
    "None": lambda ended: False,
}
"""Whether a group of two speaks, by its policy and those of its members that ended."""
WHO_ENDS = (frozenset({0}), frozenset({1}), frozenset({0, 1}))


@dataclass(frozen=True)
class Row:
    """A job of two groups: some members of the first end, and perhaps the one of the second."""

    word: str
    policy: str
    job_policy: str
    ended: frozenset[int]
    other_ended: bool

    @property
    def name(self) -> str:
        who = "".join(str(index) for index in sorted(self.ended)) + ("-other" if self.other_ended else "")
        return f"{self.policy}-in-{self.job_policy}-{who}".lower()

    @property
    def is_over(self) -> bool:
        """Whether the groups with a say have spoken, or nobody is left who could."""
        votes = [self.other_ended] + ([SPEAKS[self.policy](self.ended)] if self.policy != "None" else [])
        has_spoken = any(votes) if self.job_policy == "Any" else all(votes)
        return has_spoken or (self.other_ended and self.ended == {0, 1})

    @property
    def counts(self) -> dict[str, int]:
        """How many have ended in each group, where the job goes on."""
        return {"first": len(self.ended), "second": int(self.other_ended)}

    def manifest(self, nodes: PaperNodes, **fields: Any) -> Manifest:
        """The job."""
        rules: dict[str, Any] = {self.word: self.policy}
        first = group(FOREVER, 2, **rules)
        groups = {"first": nodes.place(first), "second": nodes.place(group(FOREVER))}
        return job(self.name, groups, **{self.word: self.job_policy}, **fields)


@pytest.mark.parametrize(
    ("word", "code", "end", "counted"),
    [
        pytest.param("completePolicy", 0, "Succeed", "succeeded", id="completion"),
        pytest.param("failPolicy", 5, "Failed", "failed", id="failure"),
    ],
)
async def test_every_policy_of_groups_and_jobs(scene: Scene, word: str, code: int, end: str, counted: str) -> None:
    every = product(SPEAKS, ("Any", "All"), WHO_ENDS, (False, True))
    rows = {row.name: row for row in (Row(word, *each) for each in every)}

    def behaviour(pod: Object) -> Behaviour:
        name, place = place_of(pod)
        which, _, index = place.partition("-")
        ends = rows[name].other_ended if which == "second" else int(index) in rows[name].ended
        return Ends(code) if ends else Runs()

    def seen(name: str) -> tuple[str, Any]:
        status = scene.status(name)
        groups = status.get("replicaStatuses") or {}
        phase = scene.phase(name)
        return phase, {each: groups[each].get(counted, 0) for each in groups} if phase == "Running" else None

    async with paper_nodes(scene, 2) as nodes:
        nodes.behaviour = behaviour
        seated = nodes.seat(lambda pod: nodes.names["second" in place_of(pod)[1]])
        for row in rows.values():
            await scene.submit(row.manifest(nodes, **seated))
        wanted = {name: (end, None) if row.is_over else ("Running", row.counts) for name, row in rows.items()}
        await expect_rows(scene, wanted, seen)
