"""What a simulated cluster is given: nodes, jobs that come, services that swell and shrink."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pliant.autoscale.model import Amounts, Shape
from pliant.simulation.speed import LINEAR, Speed


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Machines that are alike."""

    name: str
    count: int
    room: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Staff:
    """Pods of a job whose number never changes, and without which it stands still: parameter servers, a master."""

    name: str
    number: int
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A job: its staff, and one group of members whose number may change."""

    name: str
    shape: Shape
    least: int
    most: int
    start: int
    """The size it comes with where somebody scales it."""
    fixed: int
    """The size it has where nobody does."""
    submit: float = 0.0
    namespace: str = "default"
    priority: int = 0
    staff: tuple[Staff, ...] = ()
    work: float = math.inf
    """Seconds that one member would take at speed 1; endless unless told."""
    speed: Speed = LINEAR
    pause: float = 0.0
    """Seconds for which it stands still after each resize, where all members have to start again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """Pods that come and go by the clock, as those of a web service do with its visitors."""

    name: str
    shape: Shape
    steps: tuple[tuple[float, int], ...]
    """From which second on there are to be how many, in order."""
    namespace: str = "default"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time that is measured by itself."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All of it."""

    nodes: tuple[NodeClass, ...]
    jobs: tuple[JobSpec, ...] = ()
    services: tuple[ServiceSpec, ...] = ()
    windows: tuple[Window, ...] = ()
    until: float = math.inf
    """When to stop looking; otherwise when the last job has ended."""
    period: float = 5.0
    gap: float = 1.0
    """Seconds from one round of the autoscaler to the next, the latter when somebody cannot be placed."""
