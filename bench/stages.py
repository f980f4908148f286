"""`pliant run`, with the moment of each stage noted: `python -m bench.stages NOTES run FILE…`.

The stages are seen from outside, by wrapping what marks their ends; the command itself is the one people run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pliant.cli.main import main
from pliant.embedded.cluster import ClusterConfig, EmbeddedCluster
from pliant.embedded.kubelet.runtime.node_agent import NodeAgentClient
from pliant.kube.client import KubeClient
from pliant.kube.resources import CRDS, PODS, Resource

STAGES = {
    "imported": "interpreter and imports",
    "checked": "files read and checked",
    "up": "cluster up",
    "taught": "CRDs served",
    "applied": "job applied",
    "created": "pods created",
    "started": "processes started",
    "stepped": "first step printed",
}
"""What ends each stage, and what the stage is called."""


class Notes:
    """When each stage ended, the last time if it did so more than once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends: dict[str, float] = {}

    def note(self, stage: str) -> None:
        """A stage has ended now; written down at once, as nobody knows which is the last."""
        self._ends[stage] = time.monotonic()
        self._path.write_text("".join(f"{name} {at}\n" for name, at in self._ends.items()))


def read_notes(path: Path) -> dict[str, float]:
    """The moments of a run that has ended, by the clock that all processes share."""
    return {name: float(at) for name, at in (line.split() for line in path.read_text().splitlines())}


def watch(notes: Notes) -> None:
    """Have the ends of all stages noted from now on."""
    started = EmbeddedCluster.start

    @asynccontextmanager
    async def noted_start(config: ClusterConfig) -> AsyncIterator[EmbeddedCluster]:
        notes.note("checked")
        async with started(config) as cluster:
            notes.note("up")
            yield cluster

    EmbeddedCluster.start = noted_start  # type: ignore[method-assign, assignment]
    KubeClient.create = _after(KubeClient.create, lambda resource: notes.note(_stage(resource)))  # type: ignore[method-assign]
    NodeAgentClient.start_container = _after(NodeAgentClient.start_container, lambda _: notes.note("started"))  # type: ignore[method-assign]


def _after(call: Callable[..., Awaitable[Any]], then: Callable[[Any], None]) -> Any:
    async def noted(self: object, first: object, *others: object, **named: object) -> object:
        answer = await call(self, first, *others, **named)
        if "subresource" not in named:
            then(first)
        return answer

    return noted


def _stage(resource: Resource) -> str:
    if resource == CRDS:
        return "taught"
    if resource == PODS:
        return "created"
    return "applied" if resource.kind == "AITrainingJob" else "other"


if __name__ == "__main__":
    noting = Notes(Path(sys.argv[1]))
    noting.note("imported")
    watch(noting)
    main(sys.argv[2:])
