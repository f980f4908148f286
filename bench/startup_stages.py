"""`pliant run` with the end of each startup stage recorded: `python -m bench.startup_stages TIMES run FILE…`.

The functions that end a stage are wrapped from outside; the command itself is unchanged.
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
    "validated": "manifests validated",
    "cluster-started": "cluster started",
    "crds-created": "CRDs created",
    "job-created": "job created",
    "pods-created": "pods created",
    "containers-started": "containers started",
    "first-step": "first step printed",
}
"""The label of each stage by the event that ends it."""


class StageTimes:
    """The time at which each stage ended; the last time for a stage that ended more than once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends: dict[str, float] = {}

    def record(self, stage: str) -> None:
        """Record that a stage ended now, and write the file, because any stage can be the last."""
        self._ends[stage] = time.monotonic()
        self._path.write_text("".join(f"{name} {end}\n" for name, end in self._ends.items()))


def read_stage_times(path: Path) -> dict[str, float]:
    """Read the times of a finished run, in seconds of the monotonic clock, which all processes share."""
    return {name: float(end) for name, end in (line.split() for line in path.read_text().splitlines())}


def instrument_stages(times: StageTimes) -> None:
    """Wrap the functions that end stages, so that their times are recorded."""
    start_cluster = EmbeddedCluster.start

    @asynccontextmanager
    async def start_and_record(config: ClusterConfig) -> AsyncIterator[EmbeddedCluster]:
        times.record("validated")
        async with start_cluster(config) as cluster:
            times.record("cluster-started")
            yield cluster

    EmbeddedCluster.start = start_and_record  # type: ignore[method-assign, assignment]
    KubeClient.create = _call_after(KubeClient.create, lambda resource: times.record(_creation_stage(resource)))  # type: ignore[method-assign]
    NodeAgentClient.start_container = _call_after(  # type: ignore[method-assign]
        NodeAgentClient.start_container, lambda _: times.record("containers-started")
    )


def _call_after(method: Callable[..., Awaitable[Any]], callback: Callable[[Any], None]) -> Any:
    """Wrap a method: call it, then call back with its first argument."""

    async def wrapper(self: object, first: object, *args: object, **kwargs: object) -> object:
        result = await method(self, first, *args, **kwargs)
        if "subresource" not in kwargs:
            callback(first)
        return result

    return wrapper


def _creation_stage(resource: Resource) -> str:
    if resource == CRDS:
        return "crds-created"
    if resource == PODS:
        return "pods-created"
    return "job-created" if resource.kind == "AITrainingJob" else "other"


if __name__ == "__main__":
    stage_times = StageTimes(Path(sys.argv[1]))
    stage_times.record("imported")
    instrument_stages(stage_times)
    main(sys.argv[2:])
