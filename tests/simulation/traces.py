"""Small traces that name only what matters."""

from __future__ import annotations

import math

from pliant.autoscale.model import Shape
from pliant.simulation.speed import LINEAR, Speed
from pliant.simulation.trace import JobSpec, NodeClass, Staff

GI = 1024**3


def nodes(count: int, cores: int = 4, gpus: int = 0) -> NodeClass:
    """Nodes with so many cores each."""
    room = {"cpu": cores * 1000, "memory": 64 * GI, "pods": 110}
    return NodeClass(name=f"n{cores}", count=count, room=room | ({"nvidia.com/gpu": gpus} if gpus else {}))


def cores(number: float, gpus: int = 0) -> Shape:
    """A pod that takes so many cores."""
    return Shape.of({"cpu": int(number * 1000), "memory": GI, "nvidia.com/gpu": gpus, "pods": 1})


def job(
    name: str,
    least: int = 1,
    most: int | None = None,
    *,
    submit: float = 0.0,
    work: float = math.inf,
    shape: Shape | None = None,
    servers: int = 0,
    speed: Speed = LINEAR,
    priority: int = 0,
    pause: float = 0.0,
    fixed: int | None = None,
) -> JobSpec:
    """A job whose members take one core each."""
    most = least if most is None else most
    staff = (Staff(name="server", number=servers, shape=cores(1)),) if servers else ()
    return JobSpec(
        name=name, shape=shape or cores(1), least=least, most=most, start=least, fixed=fixed or most,
        submit=submit, work=work, staff=staff, speed=speed, priority=priority, pause=pause,
    )  # fmt: skip
