"""Small traces that name only what matters."""

from __future__ import annotations

import math

from pliant.autoscale.model import PodShape
from pliant.simulation.trace import LINEAR_THROUGHPUT, FixedReplicas, NodeClass, ThroughputModel, TraceJob

GI = 1024**3


def nodes(count: int, cores: int = 4, gpus: int = 0) -> NodeClass:
    """Nodes with so many cores each."""
    room = {"cpu": cores * 1000, "memory": 64 * GI, "pods": 110}
    return NodeClass(name=f"n{cores}", count=count, allocatable=room | ({"nvidia.com/gpu": gpus} if gpus else {}))


def cores(number: float, gpus: int = 0) -> PodShape:
    """A pod that takes so many cores."""
    return PodShape.of({"cpu": int(number * 1000), "memory": GI, "nvidia.com/gpu": gpus, "pods": 1})


def job(
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    submit: float = 0.0,
    work: float = math.inf,
    shape: PodShape | None = None,
    servers: int = 0,
    speed: ThroughputModel = LINEAR_THROUGHPUT,
    priority: int = 0,
    pause: float = 0.0,
    fixed: int | None = None,
) -> TraceJob:
    """A job whose members take one core each."""
    most = least if most is None else most
    staff = (FixedReplicas(name="server", count=servers, shape=cores(1)),) if servers else ()
    return TraceJob(
        name=name,
        shape=shape or cores(1),
        min_size=least,
        max_size=most,
        initial_size=least,
        static_size=fixed or most,
        submitted_at=submit,
        total_work=work,
        fixed_replicas=staff,
        throughput=speed,
        priority=priority,
        resize_pause=pause,
    )
