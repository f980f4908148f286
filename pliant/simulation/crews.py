"""What lives on a simulated cluster: pods, crews of like pods, and jobs made of crews."""

from __future__ import annotations

from enum import Enum, auto

from pliant.autoscale.model import Elastic, GroupKey, Shape
from pliant.autoscale.pacing import History
from pliant.simulation.machines import Needs
from pliant.simulation.trace import JobSpec

KIND = "Simulated"
MEMBERS = "member"


class State(Enum):
    """How far a pod has come."""

    WAITING = auto()
    STARTING = auto()
    RUNNING = auto()
    LEAVING = auto()
    GONE = auto()


class Pod:
    """One of a crew."""

    __slots__ = ("born", "crew", "is_counted", "node", "order", "state")

    def __init__(self, crew: Crew, born: float, order: int) -> None:
        self.crew = crew
        self.born = born
        self.order = order
        self.state = State.WAITING
        self.node = -1
        self.is_counted = False
        """Whether its CPU counts as used: from when it runs until it is gone."""


class Crew:
    """Like pods of one owner; those that leave are no longer in it."""

    __slots__ = (
        "cpu",
        "is_elastic",
        "job",
        "key",
        "needs",
        "pods",
        "priority",
        "running",
        "shape",
        "since",
        "waiting",
    )

    def __init__(self, key: str, shape: Shape, needs: Needs, *, priority: int, since: float) -> None:
        self.key = key
        self.shape = shape
        self.needs = needs
        self.cpu = dict(shape.needs).get("cpu", 0)
        self.priority = priority
        self.since = since
        self.is_elastic = False
        self.job: JobRun | None = None
        self.pods: list[Pod] = []
        self.waiting = 0
        self.running = 0

    @property
    def is_up(self) -> bool:
        """Whether all of it runs."""
        return self.running == len(self.pods)


class JobRun:
    """A job on its way."""

    __slots__ = (
        "elastic", "ended_at", "history", "key", "members", "paused_until", "rate", "resizes", "spec", "speeds",
        "staff", "started_at", "updated_at", "version", "work_left",
    )  # fmt: skip

    def __init__(self, spec: JobSpec, members: Crew, staff: list[Crew], now: float) -> None:
        self.spec = spec
        self.key = GroupKey(spec.namespace, KIND, spec.name, MEMBERS)
        self.members = members
        self.staff = staff
        self.work_left = spec.work
        self.rate = 0.0
        self.updated_at = now
        self.version = 0
        """Counts changes of its rate; what was reckoned with an older one is void."""
        self.paused_until = 0.0
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.resizes = 0
        self.history = History(starts_anew=spec.pause > 0)
        self.speeds: dict[int, float] = {}
        self.elastic: Elastic | None = None
        """How policies saw it last; None once that is no longer true."""

    @property
    def works(self) -> bool:
        """Whether it gets on: with all of its staff and as many members as it needs at the least."""
        least = min(self.spec.least, self.spec.fixed)
        return self.members.running >= max(least, 1) and all(crew.is_up for crew in self.staff)
