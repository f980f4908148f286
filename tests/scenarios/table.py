"""Many jobs side by side, each a row of a table: whichever row is wrong is named."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pliant.kube.codec import WatchEventType
from tests.scenarios.laws import Object
from tests.scenarios.nodes import PaperNodes
from tests.scenarios.scene import Scene

T = TypeVar("T")
AnyScene = TypeVar("AnyScene", bound=Scene)
Story = Callable[[AnyScene, PaperNodes, str], Coroutine[Any, Any, None]]
"""What happens to a job of this name, which is the story's own."""

PATIENCE = 60.0
"""Seconds for a whole table."""


async def expect_rows(scene: Scene, wanted: Mapping[str, T], seen: Callable[[str], T]) -> None:
    """Wait until every row is as wanted; of those that never are, tell what was seen instead."""
    await expect_all(scene, wanted, lambda: {row: seen(row) for row in wanted})


async def expect_all(scene: Scene, wanted: Mapping[str, T], seen: Callable[[], Mapping[str, T]]) -> None:
    """The same, for all that can be seen: nothing may be there besides what is wanted."""
    with suppress(AssertionError):
        await scene.until(lambda: seen() == wanted, "every row", PATIENCE)
    rows = seen()
    wrong = [row for row in {**wanted, **rows} if rows.get(row) != wanted.get(row)]
    assert not wrong, "\n".join(f"{row}: saw {rows.get(row)}, wanted {wanted.get(row)}" for row in wrong)


async def side_by_side(scene: AnyScene, nodes: PaperNodes, *stories: Story[AnyScene]) -> None:
    """Play stories that mostly wait in one namespace, each about a job of its own; tell of all that go wrong."""
    names = [f"s{number}" for number in range(len(stories))]
    plays = (story(scene, nodes, name) for story, name in zip(stories, names, strict=True))
    ends = await asyncio.gather(*plays, return_exceptions=True)
    wrong = [(story, end) for story, end in zip(stories, ends, strict=True) if end is not None]
    for story, end in wrong:
        end.add_note(f"in the story of {story.__name__.replace('_', ' ')}")
    if wrong:
        raise BaseExceptionGroup("stories that went wrong", [end for _, end in wrong])


def attempts_of_all(scene: Scene) -> dict[str, list[str]]:
    """The attempts at every place there ever was, in the words of its pods' labels."""
    tried: dict[str, list[str]] = {}
    for change in scene.history:
        if change.kind == "Pod" and change.type is WatchEventType.ADDED:
            tried.setdefault(change.name, []).append(change.object["metadata"]["labels"]["RestartCount"])
    return tried


def place_of(pod: Object) -> tuple[str, str]:
    """The job of a pod, and its group and index: `("train", "worker-1")`."""
    labels: Mapping[str, Any] = pod["metadata"]["labels"]
    return labels["TrainingJobName"], f"{labels['TrainingJobReplicaName']}-{labels['TrainingJobReplicaIndex']}"
